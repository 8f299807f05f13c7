// Arithmetic of two and more operands.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/math/families.h"

namespace mica {
namespace {

constexpr ResultRule kFloat = ResultRule::kFloat;

// div.*_mode: true division without a mode, else the operands' own dtype.
InferFn DivWithMode() {
  return [](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    const bool is_true = !call.Has(2);
    if (!is_true && call.String(2) != "floor" && call.String(2) != "trunc") {
      return call.Wants("rounding_mode None, \"floor\" or \"trunc\"");
    }
    return Pointwise({.operands = {0, 1},
                      .result = is_true ? kFloat : ResultRule::kPromoted})(
        call);
  };
}

void RegisterElementSums(OpRegistry& registry) {
  const PointwiseRule sum = {.operands = {0, 1}};
  const PointwiseRule difference = {.operands = {0, 1},
                                    .accepts = Accepts::kAny};
  registry.Add(PointwiseOp(
      "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> "
      "Tensor",
      "self + alpha * other.", sum));
  registry.Add(PointwiseOp(
      "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
      "self + alpha * other.", sum));
  registry.Add(PointwiseOp(
      "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> "
      "Tensor",
      "self - alpha * other.", difference));
  registry.Add(PointwiseOp(
      "aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
      "self - alpha * other.", difference));
  registry.Add(PointwiseOp(
      "aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> "
      "Tensor",
      "other - alpha * self.", difference));
  registry.Add(PointwiseOp(
      "aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
      "other - alpha * self.", difference));
  registry.Add(PointwiseOp(
      "aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar "
      "value=1) -> Tensor",
      "self + value * tensor1 * tensor2.", {.operands = {0, 1, 2}}));
  registry.Add(PointwiseOp(
      "aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar "
      "value=1) -> Tensor",
      "self + value * tensor1 / tensor2.",
      {.operands = {0, 1, 2}, .accepts = Accepts::kFloating}));
  registry.Add(PointwiseOp(
      "aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
      "self + weight * (end - self).",
      {.operands = {0, 1}, .accepts = Accepts::kFloating}));
  registry.Add(PointwiseOp(
      "aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
      "self + weight * (end - self).",
      {.operands = {0, 1, 2}, .accepts = Accepts::kFloating}));
}

void RegisterProducts(OpRegistry& registry) {
  const PointwiseRule product = {.operands = {0, 1}};
  const PointwiseRule quotient = {.operands = {0, 1}, .result = kFloat};
  registry.Add(
      PointwiseOp("aten::mul.Tensor(Tensor self, Tensor other) -> Tensor",
                  "self * other.", product));
  registry.Add(
      PointwiseOp("aten::mul.Scalar(Tensor self, Scalar other) -> Tensor",
                  "self * other.", product));
  registry.Add(
      PointwiseOp("aten::div.Tensor(Tensor self, Tensor other) -> Tensor",
                  "self / other, true division.", quotient));
  registry.Add(
      PointwiseOp("aten::div.Scalar(Tensor self, Scalar other) -> Tensor",
                  "self / other, true division.", quotient));
  registry.Add(OpDef("aten::div.Tensor_mode(Tensor self, Tensor other, *, str? "
                     "rounding_mode) -> Tensor")
                   .Doc("self / other, rounded down (floor), to zero (trunc) "
                        "or not.")
                   .Infer(DivWithMode())
                   .Elementwise()
                   .RaisesByValues());
  registry.Add(OpDef("aten::div.Scalar_mode(Tensor self, Scalar other, *, str? "
                     "rounding_mode) -> Tensor")
                   .Doc("self / other, rounded down (floor), to zero (trunc) "
                        "or not.")
                   .Infer(DivWithMode())
                   .Elementwise()
                   .RaisesByValues());
  registry.Add(
      PointwiseOp(
          "aten::floor_divide(Tensor self, Tensor other) -> Tensor",
          "self / other, rounded down; an integer 0 as divisor is an error.",
          product)
          .RaisesByValues());
  registry.Add(
      PointwiseOp(
          "aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor",
          "self / other, rounded down; an integer 0 as divisor is an error.",
          product)
          .RaisesByValues());
}

void RegisterRemainders(OpRegistry& registry) {
  const PointwiseRule rule = {.operands = {0, 1}};
  registry.Add(
      PointwiseOp("aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor",
                  "self modulo other, with the sign of other.", rule)
          .RaisesByValues());
  registry.Add(
      PointwiseOp("aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor",
                  "self modulo other, with the sign of other.", rule)
          .RaisesByValues());
  registry.Add(
      PointwiseOp(
          "aten::remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
          "self modulo other, with the sign of other.", rule)
          .RaisesByValues());
  registry.Add(
      PointwiseOp("aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor",
                  "self modulo other, with the sign of self.", rule)
          .RaisesByValues());
  registry.Add(
      PointwiseOp("aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor",
                  "self modulo other, with the sign of self.", rule)
          .RaisesByValues());
}

void RegisterPowers(OpRegistry& registry) {
  const PointwiseRule rule = {.operands = {0, 1}};
  registry.Add(PointwiseOp(
      "aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
      "self to the power of exponent.", rule));
  registry.Add(PointwiseOp(
      "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
      "self to the power of exponent.", rule));
  registry.Add(
      PointwiseOp("aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
                  "self to the power of exponent.", rule));
  const PointwiseRule real = {.operands = {0, 1}, .result = kFloat};
  registry.Add(PointwiseOp("aten::atan2(Tensor self, Tensor other) -> Tensor",
                           "The angle of the point (other, self).", real));
  registry.Add(
      PointwiseOp("aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor",
                  "self * log(other); 0 where self is 0.", real));
  registry.Add(
      PointwiseOp("aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor",
                  "The magnitude of self with the sign of other.", real));
  const PointwiseRule floating = {.operands = {0, 1},
                                  .accepts = Accepts::kFloating};
  registry.Add(PointwiseOp("aten::hypot(Tensor self, Tensor other) -> Tensor",
                           "sqrt(self² + other²).", floating));
  registry.Add(
      PointwiseOp("aten::logaddexp(Tensor self, Tensor other) -> Tensor",
                  "log(exp(self) + exp(other)).", floating));
}

void RegisterElementExtremes(OpRegistry& registry) {
  const PointwiseRule rule = {.operands = {0, 1}};
  registry.Add(PointwiseOp("aten::minimum(Tensor self, Tensor other) -> Tensor",
                           "The smaller; NaN if either is.", rule));
  registry.Add(PointwiseOp("aten::maximum(Tensor self, Tensor other) -> Tensor",
                           "The larger; NaN if either is.", rule));
  registry.Add(PointwiseOp("aten::fmin(Tensor self, Tensor other) -> Tensor",
                           "The smaller; NaN only if both are.", rule));
  registry.Add(PointwiseOp("aten::fmax(Tensor self, Tensor other) -> Tensor",
                           "The larger; NaN only if both are.", rule));
  const PointwiseRule both = {.operands = {0, 1, 2}};
  registry.Add(PointwiseOp(
      "aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
      "self moved into [min, max].", both));
  registry.Add(PointwiseOp(
      "aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> "
      "Tensor",
      "self moved into [min, max].", both));
  registry.Add(PointwiseOp("aten::clamp_min(Tensor self, Scalar min) -> Tensor",
                           "The larger of self and min.", rule));
  registry.Add(
      PointwiseOp("aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor",
                  "The larger of self and min.", rule));
  registry.Add(PointwiseOp("aten::clamp_max(Tensor self, Scalar max) -> Tensor",
                           "The smaller of self and max.", rule));
  registry.Add(
      PointwiseOp("aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor",
                  "The smaller of self and max.", rule));
}

}  // namespace

void RegisterArithmeticOps(OpRegistry& registry) {
  RegisterElementSums(registry);
  RegisterProducts(registry);
  RegisterRemainders(registry);
  RegisterPowers(registry);
  RegisterElementExtremes(registry);
}

}  // namespace mica
