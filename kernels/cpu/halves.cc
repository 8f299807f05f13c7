// Arithmetic on numbers of 16 bits by loops of their own: a tile in float32 and
// back, as kernels around float32's have it, takes half as long again.

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

constexpr int64_t kBytes = 2;
// Shorter rows are met too often.
constexpr int64_t kShortestRow = 64;

struct HalvesState {
  HalfFn fn = nullptr;
  // The result as rows of n elements; an operand is as long, or one row that
  // each of them meets.
  int64_t rows = 1, n = 0;
  int num_operands = 1;
  bool is_row[2] = {false, false};
  float numbers[2] = {0, 0};
  int num_threads = 1;
};

bool LaunchHalves(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const HalvesState*>(state);
  const auto* a = static_cast<const char*>(args[0]);
  const auto* b = static_cast<const char*>(args[s.num_operands - 1]);
  auto* out = static_cast<char*>(args[s.num_operands]);
  if (s.rows == 1) {
    Parallel(s.num_threads, s.n, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * kBytes;
      s.fn(a + at, b + at, out + at, end - begin, s.numbers);
    });
    return true;
  }
  Parallel(s.num_threads, s.rows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * s.n * kBytes;
      s.fn(a + (s.is_row[0] ? 0 : at), b + (s.is_row[1] ? 0 : at), out + at,
           s.n, s.numbers);
    }
  });
  return true;
}

// How many elements of `type` stand for each row of `out`, 0 if it isn't one
// row: the last axes of a row-major result.
int64_t RowOf(const TensorType& type, const TensorType& out) {
  if (!type.is_row_major() || !out.is_row_major()) return 0;
  int first = 0;
  while (first < type.rank() && type.dims[first] == 1) ++first;
  const int rank = type.rank() - first;
  if (rank == 0 || rank > out.rank()) return 0;
  for (int i = 0; i < rank; ++i) {
    if (type.dims[first + i] != out.dims[out.rank() - rank + i]) return 0;
  }
  return type.num_elements();
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
    const int64_t row = RowOf(type, out);
    if (row < kShortestRow || (s.rows > 1 && row != s.n)) {
      return "an operand lies otherwise than the result";
    }
    s.rows = out.num_elements() / row;
    s.n = row;
    s.is_row[i] = true;
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
  add("add.Tensor", SumOf(HalfOp::kAdd));
  add("sub.Tensor", SumOf(HalfOp::kSub));
  add("mul.Tensor", Of(HalfOp::kMul));
  add("div.Tensor", Of(HalfOp::kDiv));
  add("maximum", Of(HalfOp::kMaximum));
  add("minimum", Of(HalfOp::kMinimum));
}

}  // namespace mica::cpu
