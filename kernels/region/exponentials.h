// exp and what is made of it: within 2 ulp of the exact value, or what a
// function's own comment says; infinities, nans, zeros and denormals as in
// <cmath>. The polynomials are tools/fit_functions.py's.

#ifndef MICA_KERNELS_REGION_EXPONENTIALS_H_
#define MICA_KERNELS_REGION_EXPONENTIALS_H_

#include "kernels/region/arithmetic.h"

namespace mica::MICA_REGION_NAMESPACE {

// x = n ln(2) + r with |r| <= ln(2) / 2.
template <class F>
struct Reduced {
  PowerOf2<F> power;
  F r;
};
template <class F>
MICA_LANES Reduced<F> ReduceByLn2(F x) {
  const PowerOf2<F> power = NearestPower(x, F::Of(0x1.71547652b82fep0));
  // ln(2) in two parts: the product with the first, which is short, is exact.
  constexpr double kHigh = F::kIsDouble ? 0x1.62e42fefa38p-1 : 0x1.62e4p-1;
  constexpr double kLow =
      F::kIsDouble ? 0x1.ef35793c7673p-45 : 0x1.7f7d1cf79abcap-20;
  const F r = Fma(power.n, F::Of(-kHigh), x);
  return {power, Fma(power.n, F::Of(-kLow), r)};
}

// exp(r) where |r| <= ln(2) / 2.
template <class F>
MICA_LANES F ExpOfReduced(F r) {
  if constexpr (F::kIsDouble) {
    static constexpr double kExp[] = {1,
                                      1,
                                      0.50000000000000111,
                                      0.1666666666666641,
                                      0.041666666666529198,
                                      0.008333333333495483,
                                      0.0013888888943920153,
                                      0.00019841269505062708,
                                      2.4801492765728746e-5,
                                      2.7557587084982003e-6,
                                      2.7630377480841331e-7,
                                      2.500004362594217e-8};
    return Polynomial(r, kExp);
  } else {
    static constexpr double kExp[] = {1,
                                      1,
                                      0.49999994,
                                      0.166665196,
                                      0.0416683927,
                                      0.00836877804,
                                      0.00138145161};
    return Polynomial(r, kExp);
  }
}

// 2^n exp(r). What is cut off beyond the range is 0 or infinity anyway.
template <class F>
MICA_LANES F Exp(F x) {
  // The first whose result is a normal number.
  constexpr double kLow = F::kIsDouble ? -0x1.6232bdd7abcd2p+9 : -0x1.5d589ep+6;
  const Reduced<F> usual = ReduceByLn2(Clamp(x, kLow, F::kIsDouble ? 710 : 89));
  const F y = Scale(ExpOfReduced(usual.r), usual.power);
  return IfAny(Less(x, F::Of(kLow)), y, [&]() MICA_LANES_LAMBDA {
    const Reduced<F> low =
        ReduceByLn2(Max(F::Of(F::kIsDouble ? -746 : -104), x));
    return ScaleToDenormal(ExpOfReduced(low.r), low.power);
  });
}

// 2^r where |r| is 1/2, or little more.
template <class F>
MICA_LANES F Exp2OfReduced(F r) {
  if constexpr (F::kIsDouble) {
    static constexpr double kExp2[] = {1,
                                       0.69314718055994573,
                                       0.24022650695910097,
                                       0.055504108664789893,
                                       0.0096181291076066558,
                                       0.0013333558153523603,
                                       0.00015403530442154086,
                                       1.5252727334598568e-5,
                                       1.321544232110028e-6,
                                       1.0180657517786564e-7,
                                       7.0726411618501659e-9,
                                       4.0781497857035368e-10};
    return Polynomial(r, kExp2);
  } else {
    static constexpr double kExp2[] = {1,
                                       0.693147242,
                                       0.240226522,
                                       0.0555030964,
                                       0.00961768813,
                                       0.00134069554,
                                       0.000155957066};
    return Polynomial(r, kExp2);
  }
}

// 2^n 2^(x - n).
template <class F>
MICA_LANES F Exp2(F x) {
  constexpr int kLow = 1 - kExponentBias<F>, kHigh = kExponentBias<F> + 1;
  const F usual = Clamp(x, kLow, kHigh);
  const PowerOf2<F> power = NearestPower(usual, F::Of(1));
  const F y = Scale(Exp2OfReduced(usual - power.n), power);
  return IfAny(Less(x, F::Of(kLow)), y, [&]() MICA_LANES_LAMBDA {
    const F low = Max(F::Of(kLow - kMantissaBits<F> - 2), x);
    const PowerOf2<F> least = NearestPower(low, F::Of(1));
    return ScaleToDenormal(Exp2OfReduced(low - least.n), least);
  });
}

// exp(r) - 1 where |r| <= ln(2) / 2.
template <class F>
MICA_LANES F Expm1OfReduced(F r) {
  if constexpr (F::kIsDouble) {
    static constexpr double kExpm1[] = {
        0.50000000000000011,   0.16666666666666671,   0.041666666666652183,
        0.0083333333333261012, 0.001388888889563308,  0.00019841269874946622,
        2.4801574492854423e-5, 2.7557255231823472e-6, 2.7567945596423782e-7,
        2.5105289853689367e-8, 1.7687972457526861e-9};
    return Fma(r * r, Polynomial(r, kExpm1), r);
  } else {
    static constexpr double kExpm1[] = {0.5,           0.166666672,
                                        0.0416663252,  0.00833322015,
                                        0.00139433017, 0.000199622795};
    return Fma(r * r, Polynomial(r, kExpm1), r);
  }
}

// (exp(x) - 1) / 4: 2^(n - 2) times exp(r) - 1, and 2^(n - 2) - 1/4. Of a large
// x it is finite, but its double isn't where sinh(x) isn't. Denormals may have
// lost two bits.
template <class F>
MICA_LANES F QuarterOfExpm1(F x) {
  x = F::kIsDouble ? Clamp(x, -40, 710.6) : Clamp(x, -20, 89.5);
  const Reduced<F> reduced = ReduceByLn2(x);
  const F scale = Value(reduced.power, -2);
  return Fma(scale, Expm1OfReduced(reduced.r), scale - F::Of(0.25));
}

// `y`, but x where that is so small that it is the function's value; -0 too.
template <class F>
MICA_LANES F OrItself(F y, F x) {
  const F tiny = F::Of(F::kIsDouble ? 0x1p-54 : 0x1p-25);
  return Select(Less(Abs(x), tiny), x, y);
}

// At most 3 ulp.
template <class F>
MICA_LANES F Expm1(F x) {
  return OrItself(F::Of(4) * QuarterOfExpm1(x), x);
}

// With e = exp(|x|) - 1: (e + e / (e + 1)) / 2. At most 3 ulp.
template <class F>
MICA_LANES F Sinh(F x) {
  const F half = F::Of(2) * QuarterOfExpm1(Abs(x));
  const F small = half / Fma(F::Of(2), half, F::Of(1));
  // Not infinity over infinity.
  const F other = Select(Less(half, F::Of(0x1p60)), small, F::Of(0.5));
  return OrItself(CopySign(half + other, x), x);
}

// With e = exp(|x|) / 2: e + 1 / (4 e).
template <class F>
MICA_LANES F Cosh(F x) {
  x = Abs(x);
  x = Min(F::Of(F::kIsDouble ? 711 : 90), x);
  const Reduced<F> reduced = ReduceByLn2(x);
  const F half = Scale(F::Of(0.5) * ExpOfReduced(reduced.r), reduced.power);
  return half + F::Of(0.25) / half;
}

// With e = exp(2 |x|) - 1: e / (e + 2). At most 3 ulp.
template <class F>
MICA_LANES F TanhByExp(F x) {
  const F e = Expm1(F::Of(2) * Min(F::Of(20), Abs(x)));
  return CopySign(e / (e + F::Of(2)), x);
}

// Of floats x P(x x) / Q(x x), and at most 1, but not where products are
// rounded before they are added, which costs 2 ulp more. At most 6 ulp.
template <class F>
MICA_LANES F Tanh(F x) {
  if (F::kIsDouble || !F::Fuses()) return TanhByExp(x);
  const F size = Abs(x);
  static constexpr double kP[] = {0.999999979, 0.133797316, 0.00349404998,
                                  2.05837043e-05, 1.33193253e-08};
  static constexpr double kQ[] = {1, 0.467130469, 0.0258711339, 0.000328311672,
                                  7.76213482e-07};
  const F s = Min(F::Of(82), x * x);
  const F y = size * Polynomial(s, kP) / Polynomial(s, kQ);
  return CopySign(Min(F::Of(1), y), x);
}

// 1 / (1 + exp(-x)): 0 where that overflows, from -88.7 (float) or -709.8 on,
// as in PyTorch; above at most 3 ulp.
template <class F>
MICA_LANES F Sigmoid(F x) {
  return F::Of(1) / (F::Of(1) + Exp(-x));
}

// x / (1 + exp(-x)); -0 where the sum overflows, else at most 3 ulp.
template <class F>
MICA_LANES F Silu(F x) {
  return x / (F::Of(1) + Exp(-x));
}

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_EXPONENTIALS_H_
