// Each operator of framework/op/region_ops.h as one expression over the types
// of lanes.h. Whatever runs a region evaluates these, so all compute the same
// bits at the same level.
//
// cast and where are not here: they are between types, and belong to whoever
// loads and stores these.

#ifndef MICA_KERNELS_REGION_OPERATORS_H_
#define MICA_KERNELS_REGION_OPERATORS_H_

#include "framework/op/region_op_list.h"
#include "kernels/region/arithmetic.h"
#include "kernels/region/division.h"
#include "kernels/region/error_functions.h"
#include "kernels/region/exponentials.h"
#include "kernels/region/gamma.h"
#include "kernels/region/inverse_error_function.h"
#include "kernels/region/inverse_trigonometric.h"
#include "kernels/region/lanes.h"
#include "kernels/region/logarithms.h"
#include "kernels/region/power.h"
#include "kernels/region/trigonometric.h"

namespace mica::MICA_REGION_NAMESPACE {

// Operators that take more than an expression.

// 0 of a nan.
template <class F>
MICA_LANES F Sign(F a) {
  const F zero = F::Of(0);
  return Select(Less(zero, a), F::Of(1),
                Select(Less(a, zero), F::Of(-1), zero));
}
// From the nearer end, as PyTorch does.
template <class F>
MICA_LANES F Lerp(F from, F to, F weight) {
  const F way = to - from;
  return Select(Less(Abs(weight), F::Of(0.5)), Fma(weight, way, from),
                Fma(-way, F::Of(1) - weight, to));
}
template <class I>
MICA_LANES typename I::Mask IsNegative(I a) {
  return LessInt(a, I::Of(0));
}
template <class I>
MICA_LANES I SignOfInt(I a) {
  const I zero = I::Of(0);
  return Select(LessInt(zero, a), I::Of(1),
                Select(IsNegative(a), I::Of(-1), zero));
}

// What an operator makes of its operands a, b, c and d, or of those that it
// has: an F, a comparison an F::Mask.
template <RegionOpId kOp>
struct FloatOperator;
// The same of ints, which wrap around. Of a bool, as 0 or 1, too; but `not`.
template <RegionOpId kOp>
struct IntOperator;

#define MICA_FLOAT_OPERATOR(Name, expression)                               \
  template <>                                                               \
  struct FloatOperator<RegionOpId::k##Name> {                               \
    template <class F>                                                      \
    static MICA_LANES auto Of([[maybe_unused]] F a, [[maybe_unused]] F b,   \
                              [[maybe_unused]] F c, [[maybe_unused]] F d) { \
      return expression;                                                    \
    }                                                                       \
  };
#define MICA_INT_OPERATOR(Name, expression)                                 \
  template <>                                                               \
  struct IntOperator<RegionOpId::k##Name> {                                 \
    template <class I>                                                      \
    static MICA_LANES auto Of([[maybe_unused]] I a, [[maybe_unused]] I b,   \
                              [[maybe_unused]] I c, [[maybe_unused]] I d) { \
      return expression;                                                    \
    }                                                                       \
  };

// clang-format off
MICA_FLOAT_OPERATOR(Neg, -a)
MICA_FLOAT_OPERATOR(Abs, Abs(a))
MICA_FLOAT_OPERATOR(Sign, Sign(a))
MICA_FLOAT_OPERATOR(Relu, Select(Less(a, F::Of(0)), F::Of(0), a))
MICA_FLOAT_OPERATOR(Square, a * a)
MICA_FLOAT_OPERATOR(Cube, a * a * a)
MICA_FLOAT_OPERATOR(Floor, Floor(a))
MICA_FLOAT_OPERATOR(Ceil, Ceil(a))
MICA_FLOAT_OPERATOR(Trunc, Trunc(a))
MICA_FLOAT_OPERATOR(Round, Round(a))
MICA_FLOAT_OPERATOR(Reciprocal, F::Of(1) / a)
MICA_FLOAT_OPERATOR(Sqrt, Sqrt(a))
MICA_FLOAT_OPERATOR(Rsqrt, F::Of(1) / Sqrt(a))
MICA_FLOAT_OPERATOR(Exp, Exp(a))
MICA_FLOAT_OPERATOR(Exp2, Exp2(a))
MICA_FLOAT_OPERATOR(Expm1, Expm1(a))
MICA_FLOAT_OPERATOR(Log, Log(a))
MICA_FLOAT_OPERATOR(Log2, Log2(a))
MICA_FLOAT_OPERATOR(Log10, Log10(a))
MICA_FLOAT_OPERATOR(Log1p, Log1p(a))
MICA_FLOAT_OPERATOR(Sin, Sin(a))
MICA_FLOAT_OPERATOR(Cos, Cos(a))
MICA_FLOAT_OPERATOR(Tan, Tan(a))
MICA_FLOAT_OPERATOR(Asin, Asin(a))
MICA_FLOAT_OPERATOR(Acos, Acos(a))
MICA_FLOAT_OPERATOR(Atan, Atan(a))
MICA_FLOAT_OPERATOR(Sinh, Sinh(a))
MICA_FLOAT_OPERATOR(Cosh, Cosh(a))
MICA_FLOAT_OPERATOR(Tanh, Tanh(a))
MICA_FLOAT_OPERATOR(Asinh, Asinh(a))
MICA_FLOAT_OPERATOR(Acosh, Acosh(a))
MICA_FLOAT_OPERATOR(Atanh, Atanh(a))
MICA_FLOAT_OPERATOR(Erf, Erf(a))
MICA_FLOAT_OPERATOR(Erfc, Erfc(a))
MICA_FLOAT_OPERATOR(Erfinv, Erfinv(a))
MICA_FLOAT_OPERATOR(Lgamma, Lgamma(a))
MICA_FLOAT_OPERATOR(Digamma, Digamma(a))
MICA_FLOAT_OPERATOR(Sigmoid, Sigmoid(a))
MICA_FLOAT_OPERATOR(Silu, Silu(a))
MICA_FLOAT_OPERATOR(Gelu, Gelu(a))
MICA_FLOAT_OPERATOR(GeluTanh, GeluTanh(a))
MICA_FLOAT_OPERATOR(Add, a + b)
MICA_FLOAT_OPERATOR(Sub, a - b)
MICA_FLOAT_OPERATOR(Mul, a * b)
MICA_FLOAT_OPERATOR(Div, a / b)
MICA_FLOAT_OPERATOR(Maximum, Select(Less(a, b) | IsNan(b), b, a))
MICA_FLOAT_OPERATOR(Minimum, Select(Less(b, a) | IsNan(b), b, a))
MICA_FLOAT_OPERATOR(Fmax, Select(Less(a, b) | IsNan(a), b, a))
MICA_FLOAT_OPERATOR(Fmin, Select(Less(b, a) | IsNan(a), b, a))
MICA_FLOAT_OPERATOR(Pow, Pow(a, b))
MICA_FLOAT_OPERATOR(Atan2, Atan2(a, b))
MICA_FLOAT_OPERATOR(Hypot, Hypot(a, b))
MICA_FLOAT_OPERATOR(Fmod, Fmod(a, b))
MICA_FLOAT_OPERATOR(Remainder, Remainder(a, b))
MICA_FLOAT_OPERATOR(FloorDiv, FloorDiv(a, b))
MICA_FLOAT_OPERATOR(Copysign, CopySign(a, b))
MICA_FLOAT_OPERATOR(TanhBackward, a * (F::Of(1) - b * b))
MICA_FLOAT_OPERATOR(SigmoidBackward, a * (F::Of(1) - b) * b)
MICA_FLOAT_OPERATOR(Lt, Less(a, b))
MICA_FLOAT_OPERATOR(Le, LessEqual(a, b))
MICA_FLOAT_OPERATOR(Gt, Less(b, a))
MICA_FLOAT_OPERATOR(Ge, LessEqual(b, a))
MICA_FLOAT_OPERATOR(Eq, Equal(a, b))
MICA_FLOAT_OPERATOR(Ne, !Equal(a, b))
MICA_FLOAT_OPERATOR(AddScaled, Fma(c, b, a))
MICA_FLOAT_OPERATOR(SubScaled, Fma(-c, b, a))
MICA_FLOAT_OPERATOR(Lerp, Lerp(a, b, c))
MICA_FLOAT_OPERATOR(Addcmul, Fma(d * b, c, a))
MICA_FLOAT_OPERATOR(Addcdiv, a + d * b / c)

MICA_INT_OPERATOR(Neg, I::Of(0) - a)
MICA_INT_OPERATOR(Abs, Select(IsNegative(a), I::Of(0) - a, a))
MICA_INT_OPERATOR(Sign, SignOfInt(a))
MICA_INT_OPERATOR(Relu, Select(IsNegative(a), I::Of(0), a))
MICA_INT_OPERATOR(Square, a * a)
MICA_INT_OPERATOR(Cube, a * a * a)
MICA_INT_OPERATOR(Not, ~a)
MICA_INT_OPERATOR(Add, a + b)
MICA_INT_OPERATOR(Sub, a - b)
MICA_INT_OPERATOR(Mul, a * b)
MICA_INT_OPERATOR(Maximum, Select(LessInt(a, b), b, a))
MICA_INT_OPERATOR(Minimum, Select(LessInt(b, a), b, a))
MICA_INT_OPERATOR(And, a & b)
MICA_INT_OPERATOR(Or, a | b)
MICA_INT_OPERATOR(Xor, a ^ b)
MICA_INT_OPERATOR(Lt, LessInt(a, b))
MICA_INT_OPERATOR(Le, !LessInt(b, a))
MICA_INT_OPERATOR(Gt, LessInt(b, a))
MICA_INT_OPERATOR(Ge, !LessInt(a, b))
MICA_INT_OPERATOR(Eq, EqualInt(a, b))
MICA_INT_OPERATOR(Ne, !EqualInt(a, b))
MICA_INT_OPERATOR(AddScaled, a + c * b)
MICA_INT_OPERATOR(SubScaled, a - c * b)
MICA_INT_OPERATOR(Addcmul, a + d * b * c)
// clang-format on

#undef MICA_FLOAT_OPERATOR
#undef MICA_INT_OPERATOR

// Whether an operator has an expression for each kind of numbers that the
// table gives it.
template <class Operator>
concept IsWritten = requires {
  sizeof(Operator);
};
template <RegionOpId kOp, RegionDomain kDomain>
constexpr bool HasExpressions() {
  if (kOp == RegionOpId::kCast || kOp == RegionOpId::kWhere) return true;
  const bool on_floats = kDomain == RegionDomain::kFloats ||
                         kDomain == RegionDomain::kNumbers ||
                         kDomain == RegionDomain::kAll;
  const bool on_ints = kDomain != RegionDomain::kFloats;
  return on_floats == IsWritten<FloatOperator<kOp>> &&
         on_ints == IsWritten<IntOperator<kOp>>;
}
#define MICA_HAS_EXPRESSIONS(Name, name, arity, domain)                      \
  static_assert(HasExpressions<RegionOpId::k##Name, RegionDomain::domain>(), \
                name " lacks an expression, or has one too many");
MICA_REGION_OPS(MICA_HAS_EXPRESSIONS)
#undef MICA_HAS_EXPRESSIONS

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_OPERATORS_H_
