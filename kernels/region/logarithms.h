// log, what is made of it, and pow: at most 2 ulp from the exact value, or
// what a function's own comment says; infinities, nans, zeros and denormals as
// in <cmath>. The polynomials are tools/fit_functions.py's.

#ifndef MICA_KERNELS_REGION_LOGARITHMS_H_
#define MICA_KERNELS_REGION_LOGARITHMS_H_

#include <limits>

#include "kernels/region/arithmetic.h"

namespace mica::MICA_REGION_NAMESPACE {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Below this log(1 + x), asinh(x) and atanh(x) are x; from the other on
// asinh(x) and acosh(x) are log(2 x).
template <class F>
inline constexpr double kTinyOf = F::kIsDouble ? 0x1p-54 : 0x1p-25;
template <class F>
inline constexpr double kLargeOf = F::kIsDouble ? 0x1p28 : 0x1p13;

// x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2).
template <class F>
struct Split {
  F k, f;
  typename F::Int biased_k;
};
// Of a positive normal number.
template <class F>
MICA_LANES Split<F> SplitByRoot(F x) {
  using Int = typename F::Int;
  constexpr int kBits = kMantissaBits<F>;
  // The bits of sqrt(1/2) count as 0; a bias keeps what is below positive.
  const Int root = Int::Of(F::kIsDouble ? 0x3fe6a09e667f3bcd : 0x3f3504f3);
  const Int bias = Int::Of(int64_t{kExponentBias<F>} << kBits);
  const Int offset = Bits(x) - (root - bias);
  const Int mantissa = offset & Int::Of((int64_t{1} << kBits) - 1);
  const Int k = ShiftRight(offset, kBits);
  // To a float by the bits of one so large that its last bit is 1.
  constexpr double kWhole = F::kIsDouble ? 0x1p52 : 0x1p23;
  const F sum = FromBits<F>(k | Bits(F::Of(kWhole)));
  return {sum - F::Of(kWhole + kExponentBias<F>),
          FromBits<F>(mantissa + root) - F::Of(1), k};
}

// log(1 + f) - f where f is as above: of a float -f f / 2 + f f f P(f). Of a
// double, with s = f / (2 + f), log(1 + f) is 2 atanh(s).
template <class F>
MICA_LANES F LogLessF(F f) {
  const F square = f * f;
  if constexpr (F::kIsDouble) {
    static constexpr double kLog[] = {0.6666666666666734,  0.39999999999416413,
                                      0.28571428742009303, 0.22222198611329003,
                                      0.18183562377048371, 0.15314099601231049,
                                      0.14795466775374555};
    const F half = F::Of(0.5) * square, s = f / (F::Of(2) + f), z = s * s;
    return Fma(s, Fma(z, Polynomial(z, kLog), half), -half);
  } else {
    static constexpr double kLog[] = {0.333333135,  -0.250000089, 0.200021178,
                                      -0.166679949, 0.142195597,  -0.124056175,
                                      0.118881427,  -0.116754867, 0.0674648881};
    return Fma(square * f, Polynomial(f, kLog), F::Of(-0.5) * square);
  }
}

// k ln(2) + log(1 + f).
template <class F>
MICA_LANES F LogOfSplit(Split<F> x) {
  constexpr double kHigh = F::kIsDouble ? 0x1.62e42fefa38p-1 : 0x1.62e4p-1;
  constexpr double kLow =
      F::kIsDouble ? 0x1.ef35793c7673p-45 : 0x1.7f7d1cf79abcap-20;
  const F rest = Fma(x.k, F::Of(kLow), LogLessF(x.f));
  return Fma(x.k, F::Of(kHigh), x.f + rest);
}

// A logarithm of x by `of`, which takes it split.
template <class F, class Of>
MICA_LANES F LogBy(F x, Of of) {
  const F infinity = F::Of(kInfinity), smallest = F::Of(kSmallestNormal<F>);
  const F y = of(SplitByRoot(x));
  const auto usual = LessEqual(smallest, x) & Less(x, infinity);
  return IfAny(!usual, y, [&]() MICA_LANES_LAMBDA {
    constexpr int kShift = 54;  // Makes all denormals normal.
    Split<F> split = SplitByRoot(x * F::Of(0x1p54));
    split.k = split.k - F::Of(kShift);
    F z = Select(Equal(x, F::Of(0)), -infinity, of(split));
    z = Select(Less(x, F::Of(0)), F::Of(kNan), z);
    return Select(Less(x, infinity), z, x);  // Infinity, or nan.
  });
}

template <class F>
MICA_LANES F Log(F x) {
  return LogBy(
      x, [](Split<F> split) MICA_LANES_LAMBDA { return LogOfSplit(split); });
}

// log2(1 + f) + k; a float's has its own polynomial. At most 4 ulp.
template <class F>
MICA_LANES F Log2(F x) {
  return LogBy(x, [](Split<F> split) MICA_LANES_LAMBDA {
    const F f = split.f;
    if constexpr (F::kIsDouble) {
      return Fma(f + LogLessF(f), F::Of(0x1.71547652b82fep0), split.k);
    } else {
      static constexpr double kLog2[] = {
          1.44269502,   -0.721347332, 0.480898231, -0.360696644, 0.288567394,
          -0.239617422, 0.204600632,  -0.19106257, 0.18617475,   -0.10994973};
      return Fma(f, Polynomial(f, kLog2), split.k);
    }
  });
}

// As log2, with k log10(2) in two parts. At most 4 ulp.
template <class F>
MICA_LANES F Log10(F x) {
  return LogBy(x, [](Split<F> split) MICA_LANES_LAMBDA {
    const F f = split.f;
    if constexpr (F::kIsDouble) {
      const F low = split.k * F::Of(0x1.fef311f12b358p-46);
      const F log = Fma(f + LogLessF(f), F::Of(0x1.bcb7b1526e50ep-2), low);
      return Fma(split.k, F::Of(0x1.34413509f78p-2), log);
    } else {
      static constexpr double kLog10[] = {
          0.434294492,  -0.217147186,  0.144764796,  -0.108580507,
          0.0868674442, -0.0721320361, 0.0615909286, -0.0575155616,
          0.0560441837, -0.0330981687};
      const F log =
          Fma(f, Polynomial(f, kLog10), split.k * F::Of(0x1.3509f79fef312p-18));
      return Fma(split.k, F::Of(0x1.344p-2), log);
    }
  });
}

// The sum hi + lo split, where lo is little beside hi, a normal number.
template <class F>
MICA_LANES Split<F> SplitSum(Pair<F> sum) {
  using Int = typename F::Int;
  const Split<F> split = SplitByRoot(sum.hi);
  // 2^(1 - k), which is 0 for the largest k.
  const Int exponent = Int::Of(2 * kExponentBias<F> + 1) - split.biased_k;
  const F scale = FromBits<F>(ShiftLeft(exponent, kMantissaBits<F>));
  const F half = F::Of(0.5) * sum.lo;
  return {split.k, Fma(half, scale, split.f), split.biased_k};
}
// 1 + x, exactly. Requires x >= -1.
template <class F>
MICA_LANES Pair<F> OnePlus(F x) {
  return FastSum(Max(F::Of(1), x), Min(F::Of(1), x));
}

// At most 3 ulp, like those that follow.
template <class F>
MICA_LANES F Log1p(F x) {
  const F infinity = F::Of(kInfinity), tiny = F::Of(kTinyOf<F>);
  F y = LogOfSplit(SplitSum(OnePlus(x)));
  y = Select(Less(Abs(x), tiny), x, y);
  const auto usual = Less(F::Of(-1), x) & Less(x, infinity);
  return IfAny(!usual, y, [&]() MICA_LANES_LAMBDA {
    const F z = Select(Equal(x, F::Of(-1)), -infinity, F::Of(kNan));
    return Select(Less(F::Of(-1), x), x, z);
  });
}

// log(1 + t), but log(2 x) where x is so large that it is the same.
template <class F>
MICA_LANES F LogOfSumOrTwice(F t, F x) {
  const auto is_large = Less(F::Of(kLargeOf<F>), x);
  const F zero = F::Of(0), one = F::Of(1);
  Pair<F> sum = OnePlus(t);
  sum = {Select(is_large, x, sum.hi), Select(is_large, zero, sum.lo)};
  Split<F> split = SplitSum(sum);
  split.k = split.k + Select(is_large, one, zero);
  return Select(Less(x, F::Of(kInfinity)), LogOfSplit(split), x);
}

// With a = |x|: log(1 + a + a a / (1 + sqrt(1 + a a))).
template <class F>
MICA_LANES F Asinh(F x) {
  const F one = F::Of(1), size = Abs(x);
  const F a = Min(F::Of(kLargeOf<F>), size), square = a * a;
  const F t = a + square / (one + Sqrt(one + square));
  const F y = LogOfSumOrTwice(t, size);
  return CopySign(Select(Less(size, F::Of(kTinyOf<F>)), size, y), x);
}

// With d = x - 1: log(1 + d + sqrt(d (d + 2))).
template <class F>
MICA_LANES F Acosh(F x) {
  const F d = Min(F::Of(kLargeOf<F>), x) - F::Of(1);
  const F t = d + Sqrt(d * (d + F::Of(2)));
  return Select(Less(x, F::Of(1)), F::Of(kNan), LogOfSumOrTwice(t, x));
}

// With a = |x|: log(1 + 2 a / (1 - a)) / 2.
template <class F>
MICA_LANES F Atanh(F x) {
  const F a = Abs(x);
  const F y = F::Of(0.5) * Log1p(F::Of(2) * a / (F::Of(1) - a));
  return CopySign(y, x);
}

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_LOGARITHMS_H_
