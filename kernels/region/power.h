// pow, by a logarithm of twice as many bits.

#ifndef MICA_KERNELS_REGION_POWER_H_
#define MICA_KERNELS_REGION_POWER_H_

#include "kernels/region/arithmetic.h"
#include "kernels/region/exponentials.h"
#include "kernels/region/logarithms.h"

namespace mica::MICA_REGION_NAMESPACE {

// P(z) with atanh(s) / s = 1 + z / 3 + z z P(z), z = s s.
template <class F>
MICA_LANES F AtanhPolynomial(F z) {
  if constexpr (F::kIsDouble) {
    static constexpr double kPow[] = {
        0.20000000000000001,  0.14285714285714188,  0.11111111111145285,
        0.090909090846273119, 0.076923083765270739, 0.066666202224267765,
        0.058843367484128752, 0.052114547679178252, 0.055066352534458782};
    return Polynomial(z, kPow);
  } else {
    static constexpr double kPow[] = {0.199999988, 0.14285937, 0.110925101,
                                      0.0973386765};
    return Polynomial(z, kPow);
  }
}

// f / (2 + f).
template <class F>
MICA_LANES Pair<F> AtanhArgument(F f) {
  const Pair<F> divisor = FastSum(F::Of(2), f);
  const F inverse = F::Of(1) / divisor.hi, quotient = f * inverse;
  const Pair<F> back = Product(quotient, divisor.hi);
  const F rest = ((f - back.hi) - back.lo) - quotient * divisor.lo;
  return {quotient, inverse * rest};
}

// log2 of a positive normal number, split: with s = f / (2 + f) it is
// k + 2 / ln(2) atanh(s), and z = s s. All but z z P(z) is in pairs.
template <class F>
MICA_LANES Pair<F> Log2OfSplit(Split<F> x) {
  const Pair<F> s = AtanhArgument(x.f), z = Product(s, s);
  const auto third = PairOf<F>(0x1.5555555555555p-2, 0x1.5555555555555p-56);
  const auto factor = PairOf<F>(0x1.71547652b82fep1, 0x1.777d0ffda0d24p-55);
  Pair<F> sum = Product(z, third);
  sum.lo = Fma(z.hi * z.hi, AtanhPolynomial(z.hi), sum.lo);
  // s + s (z / 3 + ...).
  const Pair<F> product = Product(s, FastSum(sum.hi, sum.lo));
  sum = FastSum(s.hi, product);
  sum.lo = sum.lo + s.lo;
  return FastSum(x.k, Product(factor, sum));
}

// |x|^y, of a normal x and a y that isn't huge.
template <class F>
MICA_LANES F PowOfNormal(F size, F y) {
  const auto is_denormal = Less(size, F::Of(kSmallestNormal<F>));
  constexpr int kShift = 54;  // Makes all denormals normal.
  size = Select(is_denormal, size * F::Of(0x1p54), size);
  Split<F> split = SplitByRoot(size);
  split.k = split.k - Select(is_denormal, F::Of(kShift), F::Of(0));
  const Pair<F> log = Log2OfSplit(split);
  const Pair<F> exact = Product(y, log.hi);
  // Beyond the limit the result is 0 or infinity, and the rest may be a nan.
  constexpr double kLimit = F::kIsDouble ? 1100 : 160;
  const F exponent = Clamp(exact.hi, -kLimit, kLimit);
  const F rest =
      Select(Equal(exponent, exact.hi), Fma(y, log.lo, exact.lo), F::Of(0));
  const PowerOf2<F> power = NearestPower(exponent, F::Of(1));
  return Scale(Exp2OfReduced((exponent - power.n) + rest), power);
}

// From this on |y| acts as infinity does.
template <class F>
inline constexpr double kHuge = F::kIsDouble ? 0x1p900 : 0x1p100;

// All of C's special cases, `usual` being |x|^y of what isn't special.
template <class F>
MICA_LANES F PowOfSpecial(F x, F y, F usual) {
  const F zero = F::Of(0), one = F::Of(1), infinity = F::Of(kInfinity);
  const F size = Abs(x);
  // x is 0 or infinite, or y is.
  const auto extreme = Equal(size, zero) | Equal(size, infinity) |
                       LessEqual(F::Of(kHuge<F>), Abs(y));
  const auto grows =
      (Less(one, size) & Less(zero, y)) | (Less(size, one) & Less(y, zero));
  F z = Select(extreme, Select(grows, infinity, zero), usual);
  // Of negative x.
  const F half = F::Of(0.5) * y;
  const auto is_integral = Equal(Trunc(y), y);
  const auto is_odd = is_integral & !Equal(Trunc(half), half);
  const auto is_negative = Less(CopySign(one, x), zero);
  z = Select(is_negative & is_odd, -z, z);
  const auto is_finite = Less(zero, size) & Less(size, infinity);
  z = Select(is_negative & !is_integral & is_finite, F::Of(kNan), z);
  z = Select(IsNan(x) | IsNan(y), F::Of(kNan), z);
  // 1 to whatever is 1, and so is -1 to infinity.
  const auto one_to_huge =
      Equal(size, one) & LessEqual(F::Of(kHuge<F>), Abs(y));
  return Select(Equal(y, zero) | Equal(x, one) | one_to_huge, one, z);
}

// At most 2 ulp.
template <class F>
MICA_LANES F Pow(F x, F y) {
  const F z = PowOfNormal(Abs(x), y);
  const auto usual = Less(F::Of(0), x) & Less(x, F::Of(kInfinity)) &
                     Less(Abs(y), F::Of(kHuge<F>));
  return IfAny(!usual, z,
               [&]() MICA_LANES_LAMBDA { return PowOfSpecial(x, y, z); });
}

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_POWER_H_
