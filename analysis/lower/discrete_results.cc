#include "analysis/lower/discrete_results.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace mica {
namespace {

// Which of equal values is met first depends on the algorithm.
constexpr absl::string_view kOrders[] = {"aten.argsort", "aten.kthvalue",
                                         "aten.median",  "aten.mode",
                                         "aten.sort",    "aten.topk"};

// Which of two zeros is the larger one depends on the vector's width, and
// whether a negative zero stays one on what it is added to.
constexpr absl::string_view kSigns[] = {"aten.amax",
                                        "aten.amin",
                                        "aten.clamp.Tensor",
                                        "aten.clamp_max.Tensor",
                                        "aten.clamp_min.Tensor",
                                        "aten.fmax",
                                        "aten.fmin",
                                        "aten.maximum",
                                        "aten.minimum",
                                        "aten.reflection_pad3d",
                                        "aten.replication_pad3d",
                                        "aten.scatter_reduce.two",
                                        "aten.softshrink"};

// Of all that make planes larger those that only copy, and what adds up what
// was copied, beginning with a zero.
constexpr absl::string_view kCopies[] = {
    "aten._upsample_nearest_exact2d", "aten._upsample_nearest_exact2d_backward",
    "aten.upsample_nearest2d", "aten.upsample_nearest2d_backward"};

// Quotients in low precision are rounded before they are cut, unless a number
// divides, which isn't rounded.
constexpr absl::string_view kQuotients[] = {
    "aten.div.Scalar_mode", "aten.div.Tensor_mode", "aten.floor_divide"};

// Names with an overload mean that one, others all.
template <size_t N>
bool IsOneOf(const absl::string_view (&names)[N], absl::string_view op) {
  return std::any_of(names, names + N, [op](absl::string_view name) {
    absl::string_view rest = op;
    return absl::ConsumePrefix(&rest, name) && (rest.empty() || rest[0] == '.');
  });
}

// "aten.sort.values" of "aten.sort_.values", which writes what that returns.
std::string ReturningName(absl::string_view op) {
  std::string name(op);
  const size_t overload = name.find('.', std::string("aten.").size());
  const size_t end = overload == std::string::npos ? name.size() : overload;
  if (end > 0 && name[end - 1] == '_') name.erase(end - 1, 1);
  return name;
}

// Whether a tensor that the call takes has one of these dtypes.
template <typename Predicate>
bool TakesA(const Tape& tape, const TapeCall& call, const Predicate& is_such) {
  bool found = false;
  for (const TapeValue& arg : call.args) {
    ForEachTensor(arg, [&](TapeTensorId id) {
      const TapeTensor& tensor = tape.tensors[id];
      found = found || is_such(tensor.dtype);
    });
  }
  return found;
}

// Whether one of the two operands is a number, or a tensor without dims, which
// ATen takes for one.
bool TakesANumber(const Tape& tape, const TapeCall& call) {
  int num_arrays = 0;
  for (const TapeValue& arg : call.args) {
    ForEachTensor(arg, [&](TapeTensorId id) {
      num_arrays += tape.tensors[id].sizes.empty() ? 0 : 1;
    });
  }
  return num_arrays < 2;
}

bool IsLowPrecision(absl::string_view dtype) {
  return dtype == "bf16" || dtype == "f16";
}

bool IsFloat(absl::string_view dtype) {
  return dtype == "f32" || dtype == "f64" || IsLowPrecision(dtype);
}

}  // namespace

bool IsDiscreteInAten(const Tape& tape, const TapeCall& call) {
  const std::string op = ReturningName(call.op);
  if (IsOneOf(kOrders, op)) return true;
  if (IsOneOf(kCopies, op)) return false;
  if (IsOneOf(kSigns, op) || absl::StartsWith(op, "aten.upsample_") ||
      absl::StartsWith(op, "aten._upsample_")) {
    return TakesA(tape, call, IsFloat);
  }
  if (op == "aten.nan_to_num") return TakesA(tape, call, IsLowPrecision);
  return IsOneOf(kQuotients, op) && TakesA(tape, call, IsLowPrecision) &&
         TakesANumber(tape, call);
}

}  // namespace mica
