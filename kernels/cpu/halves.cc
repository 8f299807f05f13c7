// Arithmetic on numbers of 16 bits by loops of their own: a tile in float32 and
// back, as kernels around float32's have it, takes half as long again.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// Shorter rows are met too often.
constexpr int64_t kShortestRow = 64;

// How an operand lies to the result, which is rows of n elements.
struct Place {
  enum Kind {
    kAlike,   // Element by element as the result does.
    kRow,     // One row that each of them meets.
    kColumn,  // One element for each row.
  };
  Kind kind = kAlike;
  int64_t step = 0;  // From one of a column to the next.
};

struct HalvesState {
  HalfFn fn = nullptr;
  int64_t rows = 1, n = 0;
  int num_operands = 1;
  Place places[2];
  float numbers[2] = {0, 0};
  int num_threads = 1;
};

// Where a row of an operand begins, and the step from element to element.
struct Row {
  const uint16_t* at = nullptr;
  int64_t step = 1;
};

Row RowOf(const HalvesState& s, void* const* args, int operand, int64_t row) {
  const auto* x = static_cast<const uint16_t*>(args[operand]);
  const Place& place = s.places[operand];
  switch (place.kind) {
    case Place::kAlike:
      return {x + row * s.n};
    case Place::kRow:
      return {x};
    case Place::kColumn:
      return {x + row * place.step, 0};
  }
  return {};
}

bool LaunchHalves(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const HalvesState*>(state);
  const int last = s.num_operands - 1;
  auto* out = static_cast<uint16_t*>(args[s.num_operands]);
  if (s.rows == 1) {
    const auto* a = static_cast<const uint16_t*>(args[0]);
    const auto* b = static_cast<const uint16_t*>(args[last]);
    Parallel(s.num_threads, s.n, [&](int64_t begin, int64_t end) {
      s.fn(a + begin, 1, b + begin, 1, out + begin, end - begin, s.numbers);
    });
    return true;
  }
  Parallel(s.num_threads, s.rows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Row a = RowOf(s, args, 0, i), b = RowOf(s, args, last, i);
      s.fn(a.at, a.step, b.at, b.step, out + i * s.n, s.n, s.numbers);
    }
  });
  return true;
}

// A dim of the result that has more than one element, and the step that an
// operand takes along it: 0 where it is broadcast.
struct Dim {
  int64_t size = 1, step = 0;
};

// Neighbours that are one in the operand are joined.
absl::InlinedVector<Dim, 4> DimsOf(const TensorType& type,
                                   const TensorType& out) {
  const Dims strides = type.EffectiveStrides();
  const int first = out.rank() - type.rank();
  absl::InlinedVector<Dim, 4> dims;
  for (int i = 0; i < out.rank(); ++i) {
    if (out.dims[i] == 1) continue;
    const bool is_single = i < first || type.dims[i - first] == 1;
    const Dim dim = {out.dims[i], is_single ? 0 : strides[i - first]};
    if (!dims.empty() && dims.back().step == dim.step * dim.size) {
      dims.back() = {dims.back().size * dim.size, dim.step};
    } else {
      dims.push_back(dim);
    }
  }
  return dims;
}

// The place of an operand that lies otherwise than the row-major result, and
// the length of the rows; nothing if it is neither a row nor a column.
std::optional<std::pair<Place, int64_t>> PlaceOf(const TensorType& type,
                                                 const TensorType& out) {
  if (!out.is_row_major() || type.rank() > out.rank()) return std::nullopt;
  const auto dims = DimsOf(type, out);
  if (dims.size() != 2) return std::nullopt;
  const int64_t n = dims[1].size;
  if (dims[0].step == 0 && dims[1].step == 1) {
    return std::pair(Place{.kind = Place::kRow}, n);
  }
  if (dims[1].step != 0) return std::nullopt;
  return std::pair(Place{.kind = Place::kColumn, .step = dims[0].step}, n);
}

std::optional<std::string> LayOut(const KernelRequest& request, HalvesState& s,
                                  uint32_t& inplace) {
  const TensorType& out = request.results[0].type;
  if (!out.is_dense()) return "the result has gaps";
  s.n = out.num_elements();
  if (s.n == 0) return "nothing to compute";
  for (int i = 0; i < s.num_operands; ++i) {
    const TensorType& type = request.operands[i].type;
    if (type.dtype != out.dtype || type.is_scalar) {
      return "an operand of another type";
    }
    if (type.dims == out.dims &&
        type.EffectiveStrides() == out.EffectiveStrides()) {
      inplace |= 1u << i;
      continue;
    }
    const auto place = PlaceOf(type, out);
    if (!place.has_value() || place->second < kShortestRow ||
        (s.rows > 1 && place->second != s.n)) {
      return "an operand lies otherwise than the result";
    }
    s.rows = out.num_elements() / place->second;
    s.n = place->second;
    s.places[i] = place->first;
  }
  return std::nullopt;
}

Verdict Prepare(const KernelRequest& request, HalfOp op, HalvesState s) {
  const TensorType& out = request.results[0].type;
  const bool is_bfloat = out.dtype == DType::kBF16;
  if (!is_bfloat && out.dtype != DType::kF16) return No{"another type"};
  s.num_operands = op >= HalfOp::kAdd ? 2 : 1;
  if (static_cast<int>(request.operands.size()) != s.num_operands) {
    return No{"a number for a tensor"};
  }
  uint32_t inplace = 0;
  if (auto no = LayOut(request, s, inplace)) return No{*no};
  const Half half = is_bfloat ? Half::kBFloat : Half::kHalf;
  s.fn = Simd().half_loops[static_cast<int>(op)][static_cast<int>(half)];
  s.num_threads = UsefulThreads(request.num_threads, out.num_elements());
  Prepared prepared;
  prepared.launch = LaunchHalves;
  prepared.never_fails = true;
  prepared.inplace_operands = inplace;
  prepared.state = std::make_shared<const HalvesState>(s);
  return prepared;
}

PrepareFn Of(HalfOp op) {
  return
      [op](const KernelRequest& request) { return Prepare(request, op, {}); };
}

// A sum or a difference, of factor 1.
PrepareFn SumOf(HalfOp op) {
  return [op](const KernelRequest& request) -> Verdict {
    constexpr int kAlpha = 2;
    const bool is_plain =
        !request.Has(kAlpha) ||
        (request.OperandIndex(kAlpha) < 0 && request.Number(kAlpha) == 1.0);
    if (!is_plain) return No{"a factor"};
    return Prepare(request, op, {});
  };
}

Verdict PrepareSquare(const KernelRequest& request) {
  if (request.OperandIndex(1) >= 0 || request.Number(1) != 2) {
    return No{"no square"};
  }
  return Prepare(request, HalfOp::kSquare, {});
}

// The number given for `param`, `otherwise` if there is none; nothing for one
// that varies or is no number.
std::optional<float> NumberOf(const KernelRequest& request, int param,
                              float otherwise) {
  if (param < 0 || !request.Has(param)) return otherwise;
  if (request.OperandIndex(param) >= 0) return std::nullopt;
  const double number = request.Number(param);
  if (std::isnan(number)) return std::nullopt;
  return static_cast<float>(number);
}

PrepareFn ClampOf(int low, int high) {
  return [=](const KernelRequest& request) -> Verdict {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const auto lowest = NumberOf(request, low, -kInfinity);
    const auto highest = NumberOf(request, high, kInfinity);
    if (!lowest.has_value() || !highest.has_value()) {
      return No{"a limit varies or is nan"};
    }
    return Prepare(request, HalfOp::kClamp, {.numbers = {*lowest, *highest}});
  };
}

Verdict PrepareLeakyRelu(const KernelRequest& request) {
  const auto slope = NumberOf(request, 1, 0.01f);
  if (!slope.has_value()) return No{"the slope varies or is nan"};
  return Prepare(request, HalfOp::kLeakyRelu, {.numbers = {*slope, 0}});
}

}  // namespace

void RegisterHalves(KernelRegistry& registry) {
  const auto add = [&registry](absl::string_view op, PrepareFn prepare) {
    constexpr DType kHalves[] = {DType::kBF16, DType::kF16};
    registry.Add(absl::StrCat("aten.", op), kHalves, KernelRank::kFast,
                 {"cpu.halves", std::move(prepare)});
  };
  add("relu", Of(HalfOp::kRelu));
  add("sqrt", Of(HalfOp::kSqrt));
  add("rsqrt", Of(HalfOp::kRsqrt));
  add("reciprocal", Of(HalfOp::kReciprocal));
  add("pow.Tensor_Scalar", PrepareSquare);
  add("floor", Of(HalfOp::kFloor));
  add("ceil", Of(HalfOp::kCeil));
  add("round", Of(HalfOp::kRound));
  add("trunc", Of(HalfOp::kTrunc));
  add("hardtanh", ClampOf(1, 2));
  add("clamp", ClampOf(1, 2));
  add("clamp_min", ClampOf(1, -1));
  add("clamp_max", ClampOf(-1, 1));
  add("leaky_relu", PrepareLeakyRelu);
  add("hardswish", Of(HalfOp::kHardswish));
  add("hardsigmoid", Of(HalfOp::kHardsigmoid));
  add("neg", Of(HalfOp::kNeg));
  add("abs", Of(HalfOp::kAbs));
  add("add.Tensor", SumOf(HalfOp::kAdd));
  add("sub.Tensor", SumOf(HalfOp::kSub));
  add("mul.Tensor", Of(HalfOp::kMul));
  add("div.Tensor", Of(HalfOp::kDiv));
  add("maximum", Of(HalfOp::kMaximum));
  add("minimum", Of(HalfOp::kMinimum));
}

}  // namespace mica::cpu
