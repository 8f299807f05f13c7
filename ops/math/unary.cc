// Functions of one number.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/math/families.h"

namespace mica {
namespace {

struct UnaryOp {
  absl::string_view name;
  absl::string_view doc;
};

constexpr UnaryOp kReal[] = {
    {"exp", "e to the power of self."},
    {"expm1", "exp(self) - 1, exact near 0."},
    {"exp2", "2 to the power of self."},
    {"log", "The natural logarithm."},
    {"log1p", "log(1 + self), exact near 0."},
    {"log2", "The logarithm to base 2."},
    {"log10", "The logarithm to base 10."},
    {"sqrt", "The square root; NaN below 0."},
    {"rsqrt", "1 / sqrt(self)."},
    {"reciprocal", "1 / self."},
    {"sin", "The sine, self in radians."},
    {"cos", "The cosine, self in radians."},
    {"tan", "The tangent, self in radians."},
    {"asin", "The angle in radians whose sine is self."},
    {"acos", "The angle in radians whose cosine is self."},
    {"atan", "The angle in radians whose tangent is self."},
    {"sinh", "The hyperbolic sine."},
    {"cosh", "The hyperbolic cosine."},
    {"tanh", "The hyperbolic tangent."},
    {"asinh", "The inverse of sinh."},
    {"acosh", "The inverse of cosh."},
    {"atanh", "The inverse of tanh."},
    {"erf", "The error function."},
    {"erfc", "1 - erf(self)."},
    {"sigmoid", "1 / (1 + exp(-self))."},
};

constexpr UnaryOp kSameDType[] = {
    {"abs", "The magnitude."},
    {"sign", "-1, 0 or 1."},
    {"sgn", "-1, 0 or 1."},
    {"floor", "The largest integer not above self."},
    {"ceil", "The smallest integer not below self."},
    {"round", "The nearest integer, the even one of two."},
    {"trunc", "The integer part."},
    {"frac", "The fractional part, with the sign of self."},
};

constexpr UnaryOp kPredicates[] = {
    {"isnan", "True where self is not a number."},
    {"isinf", "True where self is infinite."},
    {"isfinite", "True where self is neither infinite nor NaN."},
    {"signbit", "True where the sign is set."},
    {"logical_not", "True where self is 0."},
};

absl::StatusOr<TensorTypes> InferSquare(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(TensorTypes types, Pointwise({})(call));
  if (types[0].dtype == DType::kBool) types[0].dtype = DType::kI64;
  return types;
}

void Add(OpRegistry& registry, const UnaryOp& op, PointwiseRule rule) {
  registry.Add(
      PointwiseOp(absl::StrCat("aten::", op.name, "(Tensor self) -> Tensor"),
                  op.doc, std::move(rule)));
}

}  // namespace

void RegisterUnaryOps(OpRegistry& registry) {
  for (const UnaryOp& op : kReal) {
    Add(registry, op, {.result = ResultRule::kFloat});
  }
  for (const UnaryOp& op : kSameDType) Add(registry, op, {});
  for (const UnaryOp& op : kPredicates) {
    Add(registry, op, {.result = ResultRule::kBool});
  }
  Add(registry, {"neg", "-self."}, {.accepts = Accepts::kNoBool});
  registry.Add(OpDef("aten::square(Tensor self) -> Tensor")
                   .Doc("self * self; i64 of bool, as powers are.")
                   .Infer(InferSquare)
                   .Elementwise());
  Add(registry, {"bitwise_not", "All bits flipped; bools negated."},
      {.accepts = Accepts::kBitwise});
  registry.Add(PointwiseOp(
      "aten::round.decimals(Tensor self, *, int decimals) -> Tensor",
      "The nearest number with that many decimals.", {}));
  registry.Add(PointwiseOp(
      "aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, "
      "float? neginf=None) -> Tensor",
      "NaN replaced by nan or 0, infinities by the given or the largest "
      "numbers.",
      {}));
  registry.Add(
      PointwiseOp("aten::logit(Tensor self, float? eps=None) -> Tensor",
                  "log(self / (1 - self)), self first moved into [eps, 1-eps].",
                  {.result = ResultRule::kFloat}));
}

}  // namespace mica
