// erf, erfc, and GELU, which is made of them. The polynomials are
// tools/fit_functions.py's.

#ifndef MICA_KERNELS_REGION_ERROR_FUNCTIONS_H_
#define MICA_KERNELS_REGION_ERROR_FUNCTIONS_H_

#include "kernels/region/arithmetic.h"
#include "kernels/region/exponentials.h"

namespace mica::MICA_REGION_NAMESPACE {

// P(t) with erfc(x) = exp(-x x) P(t) / (1 + 9/8 x), where t is
// (x - 3) / (x + 3), in doubles 4 in place of 3. Where x is small it hardly
// moves, so that errors of t don't count.
template <class F>
MICA_LANES F ErfcPolynomial(F t) {
  if constexpr (F::kIsDouble) {
    static constexpr double kErfc[] = {
        0.75349701693783766,   -0.19187914955539176,    0.10434091383445936,
        -0.033558201786778888, -0.0091630845331159127,  0.025115050343262238,
        -0.023617493548651568, 0.01528750111401206,     -0.0073348600018259321,
        0.0024808650378280975, -0.00043576869520497123, -7.752637245098954e-5,
        7.4858372353293253e-5, -1.4557997531835532e-5,  -5.0293378764879046e-6,
        3.0333800547110044e-6, 4.9758116948345352e-8,   -4.2088464115466064e-7,
        4.404574219394561e-8,  5.2156652615349653e-8,   -6.0677262287282041e-9,
        -4.6709067695824076e-9};
    return Polynomial(t, kErfc);
  } else {
    static constexpr double kErfc[] = {
        0.78313005,     -0.219014019,   0.0806962401,  0.00724828057,
        -0.0357137136,  0.0277745854,   -0.0116165671, 0.00159296184,
        0.000964457751, -0.000141355253};
    return Polynomial(t, kErfc);
  }
}

// erfc(x) of 0 <= x <= 10.1 (float) or 27.3, given also x x, which may be more
// precise than x.
template <class F>
MICA_LANES F ErfcBySquare(F x, Pair<F> square) {
  const F middle = F::Of(F::kIsDouble ? 4 : 3);
  const F p = ErfcPolynomial((x - middle) / (x + middle));
  const F e = Exp(-square.hi);
  return Fma(-e, square.lo, e) * p / Fma(F::Of(1.125), x, F::Of(1));
}
template <class F>
MICA_LANES F ErfcOfPositive(F x) {
  x = Min(F::Of(F::kIsDouble ? 27.3 : 10.1), x);
  return ErfcBySquare(x, Product(x, x));
}

// At most 5 ulp, denormals too.
template <class F>
MICA_LANES F Erfc(F x) {
  const F y = ErfcOfPositive(Abs(x));
  return Select(Less(x, F::Of(0)), F::Of(2) - y, y);
}

// Of floats: x P(x x) / Q(x x), and at most 1. At most 6 ulp, but 7 where
// products are rounded before they are added.
template <class F>
MICA_LANES F ErfByQuotient(F x) {
  const F one = F::Of(1), size = Abs(x);
  static constexpr double kP[] = {1.12837915,     0.187555771,
                                  0.0524439881,   0.00366159569,
                                  0.000285820015, 2.11675683e-06};
  static constexpr double kQ[] = {
      1, 0.499549867, 0.112996213, 0.0147601899, 0.00114327184, 3.88264915e-05};
  // A large x would make infinity over infinity.
  const F s = Min(F::Of(15), x * x);
  const F y = size * Polynomial(s, kP) / Polynomial(s, kQ);
  return CopySign(Min(one, y), x);
}
// Of doubles, for |x| <= 1.
template <class F>
MICA_LANES F ErfByPolynomial(F x) {
  static constexpr double kErf[] = {
      1.1283791670955126,     -0.37612638903183521,   0.11283791670944185,
      -0.02686617064311142,   0.0052239776061181568,  -0.00085483259293029333,
      0.00012055293576655873, -1.4924712299041705e-5, 1.6447131553146343e-6,
      -1.6206313739195466e-7, 1.3710980744593308e-8,  -7.7794697967775853e-10};
  return x * Polynomial(x * x, kErf);
}

// Of doubles beyond 1: 1 - 2^P(x - 1), and 1 from 6 on.
template <class F>
MICA_LANES F ErfByExp2(F x) {
  static constexpr double kLog2Erfc[] = {
      -2.6684166967816005,    -3.8072253458533192,     -1.2163466577013287,
      -0.059959989729884519,  0.014475746899845774,    -0.002853490596020903,
      0.00034230696523423928, 3.8115513588221177e-5,   -3.9563914967420297e-5,
      1.4374815669948718e-5,  -3.4734815748809229e-6,  5.6800392612190652e-7,
      -5.1393357597013253e-8, -4.7261036558412957e-10, 6.5350387163898408e-10,
      -5.009147119622745e-11};
  const F log = Polynomial(Min(F::Of(5), x - F::Of(1)), kLog2Erfc);
  const PowerOf2<F> power = NearestPower(log, F::Of(1));
  return F::Of(1) - Scale(Exp2OfReduced(log - power.n), power);
}

// Of doubles at most 2 ulp; of floats 6, and beyond |x| = 1 it is
// 1 - erfc(|x|) where that is the more precise.
template <class F>
MICA_LANES F Erf(F x) {
  const F one = F::Of(1), size = Abs(x);
  if constexpr (F::kIsDouble) {
    return IfAny(Less(one, size), ErfByPolynomial(x), [&]() MICA_LANES_LAMBDA {
      return CopySign(ErfByExp2(size), x);
    });
  } else {
    const F y = ErfByQuotient(x);
    if (F::Fuses()) return y;
    return IfAny(Less(one, size), y, [&]() MICA_LANES_LAMBDA {
      return CopySign(one - ErfcOfPositive(size), x);
    });
  }
}

// x times the normal distribution's cumulative function, which is
// erfc(-x / sqrt(2)) / 2. Of doubles it is at most 6 ulp off, of floats, which
// take (1 + erf(x / sqrt(2))) / 2, at most 5 for x >= 0 and 2^-22 |x| below.
// Where the result is near the denormals it is another number as small. -0
// stays; -infinity gives nan, as in PyTorch.
template <class F>
MICA_LANES F Gelu(F x) {
  constexpr double kRootHalf = 0x1.6a09e667f3bcdp-1, kHalf = 0.5;
  if constexpr (F::kIsDouble) {
    // Beyond it the tail's product with x is below the normal numbers.
    const auto is_near = Less(Abs(x), F::Of(37.63));
    const F size = Select(is_near, Abs(x), F::Of(0));
    const Pair<F> square = Product(size, F::Of(kHalf) * size);
    const F tail = F::Of(kHalf) * ErfcBySquare(size * F::Of(kRootHalf), square);
    const F below = Select(is_near, tail, F::Of(0));
    return x * Select(Less(x, F::Of(0)), below, F::Of(1) - below);
  } else {
    const F half = F::Of(kHalf) * x;
    return CopySign(Fma(half, ErfByQuotient(x * F::Of(kRootHalf)), half), x);
  }
}

// x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x x x), which is
// x / (1 + exp(-2 u)). At most 3 ulp for x >= -1, below half an ulp of x; nan
// of -infinity, as in PyTorch.
template <class F>
MICA_LANES F GeluTanh(F x) {
  constexpr double kTwice = 2 * 0x1.9884533d43651p-1;  // 2 sqrt(2 / pi).
  const F factor = Fma(F::Of(-0.044715 * kTwice), x * x, F::Of(-kTwice));
  return x / (F::Of(1) + Exp(x * factor));
}

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_ERROR_FUNCTIONS_H_
