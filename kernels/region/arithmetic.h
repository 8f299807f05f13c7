// Steps that several functions of regions share, over the types of lanes.h.

#ifndef MICA_KERNELS_REGION_ARITHMETIC_H_
#define MICA_KERNELS_REGION_ARITHMETIC_H_

#include "kernels/region/lanes.h"

namespace mica::MICA_REGION_NAMESPACE {

// What a float's bits are made of.
template <class F>
inline constexpr int kMantissaBits = F::kIsDouble ? 52 : 23;
template <class F>
inline constexpr int kExponentBias = F::kIsDouble ? 1023 : 127;
template <class F>
inline constexpr double kSmallestNormal = F::kIsDouble ? 0x1p-1022 : 0x1p-126;

// c[i] + x (c[i + step] + x (c[i + 2 step] + ...)).
template <class F, int K>
MICA_LANES F Horner(F x, const double (&c)[K], int i, int step) {
  int last = i + (K - 1 - i) / step * step;
  F y = F::Of(c[last]);
#pragma GCC unroll 32
  for (int at = last - step; at >= i; at -= step) y = Fma(y, x, F::Of(c[at]));
  return y;
}
// c[0] + x (c[1] + c[2] x + c[3] x x + ...). A long sum is that of its even and
// its odd powers, neither of which waits for the other.
template <class F, int K>
MICA_LANES F Polynomial(F x, const double (&c)[K]) {
  if constexpr (K < 11) {
    return Horner(x, c, 0, 1);
  } else {
    const F square = x * x;
    const F sum = Fma(Horner(square, c, 2, 2), x, Horner(square, c, 1, 2));
    return Fma(sum, x, F::Of(c[0]));
  }
}

// a < b ? a : b, so that of a nan and a number it gives b.
template <class F>
MICA_LANES F Min(F a, F b) {
  return Select(Less(a, b), a, b);
}
// a > b ? a : b.
template <class F>
MICA_LANES F Max(F a, F b) {
  return Select(Less(b, a), a, b);
}
// x between these; a nan stays one.
template <class F>
MICA_LANES F Clamp(F x, double low, double high) {
  return Max(F::Of(low), Min(F::Of(high), x));
}

// A power of two: an integral n, and below the bits of a sum the same n, with
// the exponent's bias twice. Few steps lead from there to 2^n.
template <class F>
struct PowerOf2 {
  F n;
  typename F::Int sum;
};

// Of the integer nearest to a b, which is below 2^(bits of the exponent).
template <class F>
MICA_LANES PowerOf2<F> NearestPower(F a, F b) {
  // The last bit of numbers of this size is 1.
  constexpr double kWhole = F::kIsDouble ? 0x1.8p52 : 0x1.8p23;
  const F whole = F::Of(kWhole + 2 * kExponentBias<F>);
  const F sum = Fma(a, b, whole);
  return {sum - whole, Bits(sum)};
}

// 2^(n + shift), which must be a normal number. What is in the sum besides n
// goes out on the left.
template <class F>
MICA_LANES F Value(PowerOf2<F> p, int shift) {
  const auto exponent = p.sum + F::Int::Of(shift - kExponentBias<F>);
  return FromBits<F>(ShiftLeft(exponent, kMantissaBits<F>));
}

// x 2^n, rounded once: in two halves, so that neither factor leaves the range
// of exponents. |n| is below twice the largest exponent.
template <class F>
MICA_LANES F Scale(F x, PowerOf2<F> p) {
  if constexpr (requires { Scale2(x, p.n); }) {
    return Scale2(x, p.n);  // An instruction.
  } else {
    const auto half = ShiftRight(p.sum, 1);
    const auto rest = p.sum - half;
    return x * FromBits<F>(ShiftLeft(half, kMantissaBits<F>)) *
           FromBits<F>(ShiftLeft(rest, kMantissaBits<F>));
  }
}

// The same of what is below the smallest normal number, without arithmetic of
// denormals, over which processors are long: a sum that rounds to whole ones of
// the smallest denormal, whose bits are their count. It is 0 where x 2^n is
// less than half of that.
template <class F>
MICA_LANES F ScaleToDenormal(F x, PowerOf2<F> p) {
  constexpr int kBits = kMantissaBits<F>;
  const F count = x * Value(p, kExponentBias<F> - 1 + kBits);
  const F whole = F::Of(F::kIsDouble ? 0x1p52 : 0x1p23);
  return FromBits<F>(Bits(count + whole) - Bits(whole));
}

// The unrounded sum hi + lo, where lo is small beside hi.
template <class F>
struct Pair {
  F hi, lo;
};

// A constant given as a double and what is left of it.
template <class F>
MICA_LANES Pair<F> PairOf(double hi, double lo) {
  if constexpr (F::kIsDouble) {
    return {F::Of(hi), F::Of(lo)};
  } else {
    return {F::Of(hi), F::Of(hi - static_cast<float>(hi))};
  }
}

// a + b. Requires |a| >= |b| or a = 0.
template <class F>
MICA_LANES Pair<F> FastSum(F a, F b) {
  const F hi = a + b;
  return {hi, b - (hi - a)};
}
template <class F>
MICA_LANES Pair<F> FastSum(F a, Pair<F> b) {
  const Pair<F> sum = FastSum(a, b.hi);
  return {sum.hi, sum.lo + b.lo};
}

// a in two parts of half as many bits; overflows near the largest numbers.
template <class F>
MICA_LANES Pair<F> Halves(F a) {
  const F wide = a * F::Of(F::kIsDouble ? 0x1p27 + 1 : 0x1p12 + 1);
  const F hi = wide - (wide - a);
  return {hi, a - hi};
}
template <class F>
MICA_LANES Pair<F> Product(F a, F b) {
  const F hi = a * b;
  if (F::Fuses()) return {hi, Fma(a, b, -hi)};
  const Pair<F> x = Halves(a), y = Halves(b);
  return {hi, x.lo * y.lo - (((hi - x.hi * y.hi) - x.lo * y.hi) - x.hi * y.lo)};
}
template <class F>
MICA_LANES Pair<F> Product(Pair<F> a, Pair<F> b) {
  const Pair<F> p = Product(a.hi, b.hi);
  return {p.hi, p.lo + Fma(a.hi, b.lo, a.lo * b.hi)};
}

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_ARITHMETIC_H_
