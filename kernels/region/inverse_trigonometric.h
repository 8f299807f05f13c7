// Inverse trigonometric functions and hypot over the types of lanes.h. The
// polynomials are tools/fit_special_functions.py's.

#ifndef MICA_KERNELS_REGION_INVERSE_TRIGONOMETRIC_H_
#define MICA_KERNELS_REGION_INVERSE_TRIGONOMETRIC_H_

#include <limits>

#include "kernels/region/arithmetic.h"
#include "kernels/region/lanes.h"

namespace mica::MICA_REGION_NAMESPACE {

// quarters pi/2 as two floats, for 0, 1 or 2.
template <class F>
MICA_LANES F HalfPi(double quarters) {
  return F::Of(quarters *
               (F::kIsDouble ? 0x1.921fb54442d18p+0 : 0x1.921fb6p+0));
}
template <class F>
MICA_LANES F HalfPiLow(double quarters) {
  return F::Of(quarters *
               (F::kIsDouble ? 0x1.1a62633145c07p-54 : -0x1.777a5cp-25));
}

// (asin(s) - s) / s for 0 <= s <= 1/2, by z = s^2.
template <class F>
MICA_LANES F AsinTail(F z) {
  if constexpr (F::kIsDouble) {
    static constexpr double kAsin[] = {
        0.1666666666666676,    0.07499999999970805,  0.044642857174607038,
        0.030381942708019208,  0.022372214980990016, 0.017351612132807431,
        0.013980819130841959,  0.011398923656846154, 0.010780189902616567,
        0.0037066411528809025, 0.021706894346928299, -0.020998297772533325,
        0.032628155818658001};
    return z * Polynomial(z, kAsin);
  } else {
    static constexpr double kAsin[] = {0.166667521, 0.0749529824, 0.045470275,
                                       0.0241800006, 0.0421654843};
    return z * Polynomial(z, kAsin);
  }
}

// |x| <= 1/2: x + x tail(x^2). Else pi/2 - 2 asin(sqrt((1 - |x|) / 2)). At most
// 2 ulp.
template <class F>
MICA_LANES F Asin(F x) {
  const F size = Abs(x), half = F::Of(0.5);
  const auto is_small = LessEqual(size, half);
  const F z = Select(is_small, size * size, half - half * size);
  const F s = Select(is_small, size, Sqrt(z));
  const F tail = s * AsinTail(z);
  const F twice = F::Of(2) * tail - HalfPiLow<F>(1);
  const F large = HalfPi<F>(1) - Fma(F::Of(2), s, twice);
  return CopySign(Select(is_small, s + tail, large), x);
}

// At most 1.5 ulp.
template <class F>
MICA_LANES F Acos(F x) {
  const F zero = F::Of(0), half = F::Of(0.5), size = Abs(x);
  const auto is_small = LessEqual(size, half);
  const auto is_negative = Less(x, zero);
  const F z = Select(is_small, size * size, half - half * size);
  const F s = Select(is_small, size, Sqrt(z));
  const F tail = s * AsinTail(z);
  // pi/2 - asin(x); 2 asin(s); pi - 2 asin(s).
  const F small = HalfPi<F>(1) - (x + (CopySign(tail, x) - HalfPiLow<F>(1)));
  const F twice = F::Of(2) * (s + tail);
  const F large =
      Select(is_negative, HalfPi<F>(2) - (twice - HalfPiLow<F>(2)), twice);
  return Select(is_small, small, large);
}

// (atan(q) - q) / q for 0 <= q <= 1. About the interval's middle terms are
// small, and so is what they round.
template <class F>
MICA_LANES F AtanTail(F q) {
  const F z = q * q, t = z - F::Of(0.5);
  if constexpr (F::kIsDouble) {
    static constexpr double kAtan[] = {
        -0.2591604972657936,     0.11081482513071447,
        -0.054814840604565512,   0.029135862645125028,
        -0.016172974901909075,   0.0092430962327349799,
        -0.0053947926521612944,  0.0031991748660828599,
        -0.0019209408579095285,  0.0011650715316581161,
        -0.00071250520818431158, 0.00043869249554606666,
        -0.00027157440762191426, 0.00016950806333178512,
        -0.00010708652255229103, 6.5464745977635724e-5,
        -3.6948458780444176e-5,  2.7245805620200471e-5,
        -2.6522760473216264e-5,  1.3225305888898022e-5};
    return z * Polynomial(t, kAtan);
  } else {
    static constexpr double kAtan[] = {
        -0.259160489,   0.110814795,   -0.0548156239,
        0.0291390829,   -0.0161531363, 0.0091703739,
        -0.00553206401, 0.00374015165, -0.00179367466};
    return z * Polynomial(t, kAtan);
  }
}

// Of |x| > 1 pi/2 - atan(1 / |x|). At most 1.5 ulp.
template <class F>
MICA_LANES F Atan(F x) {
  const F one = F::Of(1), size = Abs(x);
  const auto is_large = Less(one, size);
  const F q = Select(is_large, -one, size) / Select(is_large, size, one);
  const F tail = q * AtanTail(q);
  const F large = HalfPi<F>(1) + (q + (tail + HalfPiLow<F>(1)));
  return CopySign(Select(is_large, large, q + tail), x);
}

// The angle in the first eighth of a turn, and from it the one around. At most
// 2 ulp, with the special cases of C.
template <class F>
MICA_LANES F Atan2(F y, F x) {
  using Int = typename F::Int;
  const F zero = F::Of(0), one = F::Of(1);
  const F ax = Abs(x), ay = Abs(y);
  const auto is_steep = Less(ax, ay);
  const auto is_left = LessInt(Bits(x), Int::Of(0));
  const F small = Select(is_steep, ax, ay), large = Select(is_steep, ay, ax);
  // Of two zeros 0, of two infinities 1.
  const F same = Select(Equal(large, zero), zero, one);
  const F q = Select(Equal(small, large), same, small / large);
  const F tail = q * AtanTail(q);
  const auto minus = (is_steep & !is_left) | (is_left & !is_steep);
  const F base =
      Select(is_steep, HalfPi<F>(1), Select(is_left, HalfPi<F>(2), zero));
  const F base_low =
      Select(is_steep, HalfPiLow<F>(1), Select(is_left, HalfPiLow<F>(2), zero));
  const F angle =
      Select(minus, -q, q) + (Select(minus, -tail, tail) + base_low);
  return CopySign(base + angle, y);
}

// sqrt(x^2 + y^2) of numbers that are brought where squares neither overflow
// nor lose what counts. At most 1.5 ulp.
template <class F>
MICA_LANES F Hypot(F x, F y) {
  constexpr bool kIsDouble = F::kIsDouble;
  const F ax = Abs(x), ay = Abs(y);
  const F large = Select(Less(ax, ay), ay, ax);
  const auto is_huge = Less(F::Of(kIsDouble ? 0x1p500 : 0x1p60), large);
  const auto is_tiny = Less(large, F::Of(kIsDouble ? 0x1p-400 : 0x1p-40));
  const F one = F::Of(1);
  const F down = F::Of(kIsDouble ? 0x1p-700 : 0x1p-100),
          up = F::Of(kIsDouble ? 0x1p700 : 0x1p100);
  const F scale = Select(is_huge, down, Select(is_tiny, up, one));
  const F back = Select(is_huge, up, Select(is_tiny, down, one));
  const F a = ax * scale, b = ay * scale;
  const F length = Sqrt(Fma(a, a, b * b)) * back;
  // An infinite side counts, beside a nan too.
  const F inf = F::Of(std::numeric_limits<double>::infinity());
  return Select(Equal(ax, inf) | Equal(ay, inf), inf, length);
}

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_INVERSE_TRIGONOMETRIC_H_
