// erf's inverse over the types of lanes.h. The polynomials are
// tools/fit_special_functions.py's.

#ifndef MICA_KERNELS_REGION_INVERSE_ERROR_FUNCTION_H_
#define MICA_KERNELS_REGION_INVERSE_ERROR_FUNCTION_H_

#include "kernels/region/arithmetic.h"
#include "kernels/region/pair_logarithm.h"

namespace mica::MICA_REGION_NAMESPACE {

// (erfinv(x) / x - sqrt(pi) / 2 - c z) / z^2 with z = x^2, for |x| <= 0.7; c is
// the series' next coefficient.
template <class F>
MICA_LANES F ErfinvCentre(F z) {
  if constexpr (F::kIsDouble) {
    static constexpr double kP[] = {
        0.1275561753056508,   -0.32186134657394744, 0.28642875344689084,
        -0.10435221923062762, 0.012709413080465887, -1.7782509616439495e-5};
    static constexpr double kQ[] = {1,
                                    -3.2018322502535019,
                                    3.9088231767047512,
                                    -2.2453689083626225,
                                    0.59529359476408239,
                                    -0.05645942753683153};
    return Polynomial(z, kP) / Polynomial(z, kQ);
  } else {
    static constexpr double kP[] = {0.127550572,  0.0867871419, 0.0611922592,
                                    0.0826594755, -0.101101249, 0.424796581,
                                    -0.546315312, 0.41649273};
    return Polynomial(z, kP);
  }
}

// erfinv(1 - 2 p) - (9/8 v - 13/16) where p = exp(-v^2), for larger x.
template <class F>
MICA_LANES F ErfinvTail(F v) {
  if constexpr (F::kIsDouble) {
    static constexpr double kP[] = {
        -0.0044637525113309963, 0.11845647119115024,    0.16560774901501676,
        0.055114793999426606,   -0.014851389917299887,  -0.014069970652202566,
        -0.0037832555676542649, -0.0004225800766431889, -1.4623898852944789e-5};
    static constexpr double kQ[] = {1,
                                    2.2982243088523058,
                                    2.1332786320951715,
                                    1.0447565742328127,
                                    0.2951380796611342,
                                    0.04802637147968019,
                                    0.0039716463979367822,
                                    0.00011708403725981563,
                                    -8.6747391673094902e-10};
    const F t = v - F::Of(1.375);
    return Polynomial(t, kP) / Polynomial(t, kQ);
  } else {
    static constexpr double kP[] = {-1.38998985, -2.02154183, 2.42403269,
                                    -0.0256054271, -0.128993914};
    static constexpr double kQ[] = {1, 6.71884108, 6.7064147, 1.0360415};
    return Polynomial(v, kP) / Polynomial(v, kQ);
  }
}

// At most 1 ulp, of denormals 2. Infinite of 1, nan beyond. Either way all
// but a small summand is in pairs.
template <class F>
MICA_LANES F Erfinv(F x) {
  const F zero = F::Of(0), one = F::Of(1), half = F::Of(0.5), size = Abs(x);
  const auto factor = PairOf<F>(0x1.c5bf891b4ef6bp-1, -0x1.618f13eb7ca89p-55);
  const auto bend = PairOf<F>(0x1.db29fb2fee5e4p-3, -0x1.3ea2ef8dde075p-60);
  const Pair<F> z = Product(x, x);
  const Pair<F> slope = FastSum(factor.hi, Product(z, bend));
  const Pair<F> line =
      Product(Pair<F>{x, zero}, Pair<F>{slope.hi, slope.lo + factor.lo});
  // A sum of zeros of either sign isn't x's zero.
  const F near =
      CopySign(line.hi + Fma(x * z.hi, z.hi * ErfinvCentre(z.hi), line.lo), x);
  const auto usual = LessEqual(size, F::Of(0.7));
  return IfAny(!usual, near, [&]() MICA_LANES_LAMBDA {
    const F p = Select(usual, half, half - half * size);
    const Pair<F> log = LogOfPair(Pair<F>{p, zero});
    const F v = Sqrt(-log.hi);
    const Pair<F> square = Product(v, v);
    const F left = ((-log.hi - square.hi) - square.lo) - log.lo;
    const Pair<F> most = FastSum(v, F::Of(0.125) * v);
    const F rest = Fma(left, F::Of(0.5625) / v, most.lo);
    const F far = (most.hi - F::Of(0.8125)) + (rest + ErfinvTail(v));
    const F limit = Select(Equal(size, one), F::Of(kInfinity), F::Of(kNan));
    return CopySign(Select(Less(size, one), far, limit), x);
  });
}

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_INVERSE_ERROR_FUNCTION_H_
