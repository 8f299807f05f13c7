// Elementwise kernels whose operands are all of the result's type.

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

constexpr DType kNumbers[] = {DType::kF32, DType::kF64, DType::kI64,
                              DType::kI32, DType::kBool};
constexpr bool kConverts[kMaxSources] = {false, false, false};

std::optional<Elem> ResultElem(const KernelRequest& request) {
  return ElemOf(request.results[0].type.dtype);
}

void UnaryRow(const PointwiseLoop& loop, const void* const* in, void* out,
              int64_t n) {
  loop.unary(in[0], out, n);
}

void BinaryRow(const PointwiseLoop& loop, const void* const* in, void* out,
               int64_t n) {
  loop.binary(in[0], in[1], out, n, loop.alpha.bytes);
}

// As BinaryRow with AddScaled; alpha is the third source, a host scalar.
void ScaledRow(const PointwiseLoop& loop, const void* const* in, void* out,
               int64_t n) {
  loop.binary(in[0], in[1], out, n, in[2]);
}

template <typename T>
Constant Negated(const void* alpha) {
  T value;
  std::memcpy(&value, alpha, sizeof(value));
  value = T{0} - value;
  Constant negated;
  std::memcpy(negated.bytes, &value, sizeof(value));
  return negated;
}

// The same for a difference.
template <typename T>
void NegatedScaledRow(const PointwiseLoop& loop, const void* const* in,
                      void* out, int64_t n) {
  loop.binary(in[0], in[1], out, n, Negated<T>(in[2]).bytes);
}

void ClampRow(const PointwiseLoop& loop, const void* const* in, void* out,
              int64_t n) {
  loop.clamp(in[0], out, n, loop.low.bytes, loop.high.bytes);
}

Verdict PrepareUnary(const KernelRequest& request, Unary op) {
  const auto elem = ResultElem(request);
  const auto x = SourceOf(request, 0);
  if (!elem.has_value() || !x.has_value()) return No{"no vector loop"};
  auto loop = std::make_shared<PointwiseLoop>();
  loop->row = UnaryRow;
  loop->unary = Simd().unary[static_cast<int>(op)][static_cast<int>(*elem)];
  if (loop->unary == nullptr) return No{"no vector loop for this dtype"};
  const Source sources[] = {*x};
  if (auto no = LayOut(request, sources, *elem, kConverts, *loop)) {
    return No{*no};
  }
  return Finish(request, sources, std::move(loop));
}

PrepareFn UnaryOf(Unary op) {
  return
      [op](const KernelRequest& request) { return PrepareUnary(request, op); };
}

// The constant given for `param`, 1 by default; nothing for a value.
std::optional<double> ConstantNumber(const KernelRequest& request, int param) {
  if (!request.Has(param)) return 1.0;
  if (request.OperandIndex(param) >= 0) return std::nullopt;
  return request.Number(param);
}

Verdict PrepareBinary(const KernelRequest& request, Binary op, double alpha,
                      int first, int second) {
  const auto elem = ResultElem(request);
  const auto a = SourceOf(request, first), b = SourceOf(request, second);
  if (!elem.has_value() || !a.has_value() || !b.has_value()) {
    return No{"no vector loop"};
  }
  const bool is_integer = *elem != Elem::kF32 && *elem != Elem::kF64;
  if (is_integer && alpha != std::floor(alpha))
    return No{"alpha is no integer"};
  auto loop = std::make_shared<PointwiseLoop>();
  loop->row = BinaryRow;
  const Source sources[] = {*a, *b};
  if (auto no = LayOut(request, sources, *elem, kConverts, *loop)) {
    return No{*no};
  }
  if (!SetBinary(op, *elem, *loop)) return No{"no vector loop for this dtype"};
  loop->alpha = MakeConstant(*elem, alpha);
  return Finish(request, sources, std::move(loop));
}

PrepareFn BinaryOf(Binary op) {
  return [op](const KernelRequest& request) {
    return PrepareBinary(request, op, 1.0, 0, 1);
  };
}

// a + sign * alpha * b, where alpha is a value.
Verdict PrepareScaled(const KernelRequest& request, int sign, int first,
                      int second) {
  const auto elem = ResultElem(request);
  const auto a = SourceOf(request, first), b = SourceOf(request, second);
  const auto alpha = SourceOf(request, 2);
  if (elem != Elem::kF32 && elem != Elem::kF64) return No{"alpha varies"};
  auto loop = std::make_shared<PointwiseLoop>();
  const bool is_f32 = elem == Elem::kF32;
  loop->row = sign > 0 ? ScaledRow
              : is_f32 ? NegatedScaledRow<float>
                       : NegatedScaledRow<double>;
  const Source sources[] = {*a, *b, *alpha};
  if (auto no = LayOut(request, sources, *elem, kConverts, *loop)) {
    return No{*no};
  }
  if (!loop->inputs[2].is_single) return No{"alpha has dims"};
  const Form form = loop->inputs[0].is_single   ? Form::kSV
                    : loop->inputs[1].is_single ? Form::kVS
                                                : Form::kVV;
  const auto& forms = Simd().binary[static_cast<int>(Binary::kAddScaled)];
  const BinaryFn binary =
      forms[static_cast<int>(*elem)][static_cast<int>(form)];
  Prepared prepared = Finish(request, sources, loop);
  // After Finish: its shortcuts know nothing of a third source.
  loop->binary = binary;
  return prepared;
}

// sign 1: self + alpha * other; -1: self - alpha * other.
PrepareFn SumOf(int sign) {
  return [sign](const KernelRequest& request) -> Verdict {
    const auto alpha = ConstantNumber(request, 2);
    if (!alpha.has_value()) return PrepareScaled(request, sign, 0, 1);
    if (*alpha != 1.0) {
      return PrepareBinary(request, Binary::kAddScaled, sign * *alpha, 0, 1);
    }
    return PrepareBinary(request, sign > 0 ? Binary::kAdd : Binary::kSub, 1.0,
                         0, 1);
  };
}

Verdict PrepareReverseSub(const KernelRequest& request) {
  const auto alpha = ConstantNumber(request, 2);
  if (!alpha.has_value()) return PrepareScaled(request, -1, 1, 0);
  if (*alpha == 1.0) return PrepareBinary(request, Binary::kSub, 1.0, 1, 0);
  return PrepareBinary(request, Binary::kAddScaled, -*alpha, 1, 0);
}

Verdict PrepareGelu(const KernelRequest& request) {
  const bool is_tanh = request.Has(1) && request.String(1) == "tanh";
  return PrepareUnary(request, is_tanh ? Unary::kGeluTanh : Unary::kGeluErf);
}

Verdict PrepareGeluBackward(const KernelRequest& request) {
  const bool is_tanh = request.String(2) == "tanh";
  return PrepareBinary(
      request, is_tanh ? Binary::kGeluTanhBackward : Binary::kGeluErfBackward,
      1.0, 0, 1);
}

Verdict PreparePower(const KernelRequest& request) {
  const auto exponent = ConstantNumber(request, 1);
  if (!exponent.has_value()) return No{"the exponent varies"};
  if (*exponent == 2) return PrepareUnary(request, Unary::kSquare);
  if (*exponent == 3) return PrepareUnary(request, Unary::kCube);
  if (*exponent == 0.5) return PrepareUnary(request, Unary::kSqrt);
  if (*exponent == -0.5) return PrepareUnary(request, Unary::kRsqrt);
  if (*exponent == -1) return PrepareUnary(request, Unary::kReciprocal);
  return No{absl::StrCat("exponent ", *exponent)};
}

// The limit given for `param`, or the type's own.
std::optional<Constant> Limit(const KernelRequest& request, int param,
                              Elem elem, bool is_low) {
  const bool is_float = elem == Elem::kF32 || elem == Elem::kF64;
  if (param < 0 || !request.Has(param)) {
    const double infinity = std::numeric_limits<double>::infinity();
    if (is_float) return MakeConstant(elem, is_low ? -infinity : infinity);
    if (elem == Elem::kI64) {
      return MakeConstant(elem, is_low ? std::numeric_limits<int64_t>::min()
                                       : std::numeric_limits<int64_t>::max());
    }
    return MakeConstant(elem,
                        int64_t{is_low ? std::numeric_limits<int32_t>::min()
                                       : std::numeric_limits<int32_t>::max()});
  }
  if (request.OperandIndex(param) >= 0) return std::nullopt;
  const Argument& argument = (*request.arguments)[param];
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    return MakeConstant(elem, *integer);
  }
  const double number = request.Number(param);
  if (!is_float || std::isnan(number)) return std::nullopt;
  return MakeConstant(elem, number);
}

Verdict PrepareClamp(const KernelRequest& request, int low, int high) {
  const auto elem = ResultElem(request);
  const auto x = SourceOf(request, 0);
  if (!elem.has_value() || !x.has_value()) return No{"no vector loop"};
  auto loop = std::make_shared<PointwiseLoop>();
  loop->row = ClampRow;
  loop->clamp = Simd().clamp[static_cast<int>(*elem)];
  if (loop->clamp == nullptr) return No{"no vector loop for this dtype"};
  const auto lo = Limit(request, low, *elem, /*is_low=*/true);
  const auto hi = Limit(request, high, *elem, /*is_low=*/false);
  if (!lo.has_value() || !hi.has_value()) return No{"a limit varies or is nan"};
  loop->low = *lo;
  loop->high = *hi;
  const Source sources[] = {*x};
  if (auto no = LayOut(request, sources, *elem, kConverts, *loop)) {
    return No{*no};
  }
  return Finish(request, sources, std::move(loop));
}

// The constant given for `param`, 0 for none; nothing for a value.
std::optional<Constant> NumberAt(const KernelRequest& request, int param,
                                 Elem elem) {
  if (param < 0 || !request.Has(param)) return MakeConstant(elem, 0.0);
  if (request.OperandIndex(param) >= 0) return std::nullopt;
  return MakeConstant(elem, request.Number(param));
}

// Its numbers are the parameters p and q, if these aren't -1.
Verdict PrepareActivation(const KernelRequest& request, Pointwise1 op, int p,
                          int q) {
  const auto elem = ResultElem(request);
  const auto x = SourceOf(request, 0);
  const bool is_float = elem == Elem::kF32 || elem == Elem::kF64;
  if (!is_float || !x.has_value()) return No{"no vector loop"};
  const auto first = NumberAt(request, p, *elem);
  const auto second = NumberAt(request, q, *elem);
  if (!first.has_value() || !second.has_value()) return No{"a number varies"};
  auto loop = std::make_shared<PointwiseLoop>();
  loop->row = ClampRow;
  loop->clamp =
      Simd().activations[static_cast<int>(op)][*elem == Elem::kF32 ? 0 : 1];
  loop->low = *first;
  loop->high = *second;
  const Source sources[] = {*x};
  if (auto no = LayOut(request, sources, *elem, kConverts, *loop)) {
    return No{*no};
  }
  return Finish(request, sources, std::move(loop));
}

void AddActivations(KernelRegistry& registry) {
  const struct {
    absl::string_view name;
    Pointwise1 op;
    int p = -1, q = -1;
  } functions[] = {{"floor", Pointwise1::kFloor},
                   {"ceil", Pointwise1::kCeil},
                   {"trunc", Pointwise1::kTrunc},
                   {"round", Pointwise1::kRound},
                   {"frac", Pointwise1::kFrac},
                   {"sign", Pointwise1::kSign},
                   {"sgn", Pointwise1::kSign},
                   {"hardswish", Pointwise1::kHardswish},
                   {"hardsigmoid", Pointwise1::kHardsigmoid},
                   {"leaky_relu", Pointwise1::kLeakyRelu, 1},
                   {"hardshrink", Pointwise1::kHardshrink, 1},
                   {"threshold", Pointwise1::kThreshold, 1, 2}};
  for (const auto& function : functions) {
    registry.Add(absl::StrCat("aten.", function.name),
                 {DType::kF32, DType::kF64}, KernelRank::kFast,
                 {absl::StrCat("cpu.", function.name),
                  [function](const KernelRequest& request) {
                    return PrepareActivation(request, function.op, function.p,
                                             function.q);
                  }});
  }
}

PrepareFn ClampOf(int low, int high) {
  return [=](const KernelRequest& request) {
    return PrepareClamp(request, low, high);
  };
}

void AddUnary(KernelRegistry& registry, absl::string_view name, Unary op) {
  registry.Add(absl::StrCat("aten.", name), kNumbers, KernelRank::kFast,
               {absl::StrCat("cpu.", name), UnaryOf(op)});
}

// Functions that the vector loops compute in float32, the rest by the C
// library's.
void AddFunction(KernelRegistry& registry, absl::string_view op,
                 absl::string_view name, const PrepareFn& prepare) {
  const Kernel kernel = {absl::StrCat("cpu.", name), prepare};
  const std::string full_name = absl::StrCat("aten.", op);
  registry.Add(full_name, {DType::kF32}, KernelRank::kFast, kernel);
  registry.Add(full_name, {DType::kF64}, KernelRank::kPlain, kernel);
}

void AddFunctions(KernelRegistry& registry) {
  const struct {
    absl::string_view name;
    Unary op;
  } functions[] = {{"exp", Unary::kExp},
                   {"erf", Unary::kErf},
                   {"tanh", Unary::kTanh},
                   {"sigmoid", Unary::kSigmoid},
                   {"silu", Unary::kSilu}};
  for (const auto& function : functions) {
    AddFunction(registry, function.name, function.name, UnaryOf(function.op));
  }
  AddFunction(registry, "gelu", "gelu", PrepareGelu);
  AddFunction(registry, "gelu_backward", "gelu_backward", PrepareGeluBackward);
}

}  // namespace

void RegisterArithmetic(KernelRegistry& registry) {
  AddUnary(registry, "neg", Unary::kNeg);
  AddUnary(registry, "abs", Unary::kAbs);
  AddUnary(registry, "relu", Unary::kRelu);
  AddUnary(registry, "reciprocal", Unary::kReciprocal);
  AddUnary(registry, "sqrt", Unary::kSqrt);
  AddUnary(registry, "rsqrt", Unary::kRsqrt);
  AddFunctions(registry);
  AddActivations(registry);
  auto add = [&registry](absl::string_view op, absl::string_view name,
                         PrepareFn prepare) {
    registry.Add(absl::StrCat("aten.", op), kNumbers, KernelRank::kFast,
                 {absl::StrCat("cpu.", name), std::move(prepare)});
  };
  add("tanh_backward", "tanh_backward", BinaryOf(Binary::kTanhBackward));
  add("pow.Tensor_Scalar", "pow", PreparePower);
  for (absl::string_view form : {".Tensor", ".Scalar"}) {
    add(absl::StrCat("add", form), "add", SumOf(1));
    add(absl::StrCat("sub", form), "sub", SumOf(-1));
    add(absl::StrCat("rsub", form), "rsub", PrepareReverseSub);
    add(absl::StrCat("mul", form), "mul", BinaryOf(Binary::kMul));
    add(absl::StrCat("div", form), "div", BinaryOf(Binary::kDiv));
  }
  add("maximum", "maximum", BinaryOf(Binary::kMaximum));
  add("minimum", "minimum", BinaryOf(Binary::kMinimum));
  add("clamp", "clamp", ClampOf(1, 2));
  add("hardtanh", "clamp", ClampOf(1, 2));
  add("clamp_min", "clamp", ClampOf(1, -1));
  add("clamp_max", "clamp", ClampOf(-1, 1));
}

}  // namespace mica::cpu
