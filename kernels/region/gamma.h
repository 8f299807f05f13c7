// lgamma and digamma over the types of lanes.h. Special values are PyTorch's.
// The polynomials are tools/fit_special_functions.py's.
//
// Around 2 both are a polynomial; the numbers up to 4.5 are brought there by
// lgamma(x + 1) = lgamma(x) + log(x), and larger ones take Stirling's series,
// whose polynomial is fitted too. The functions of negative numbers are
// reflected at 0.

#ifndef MICA_KERNELS_REGION_GAMMA_H_
#define MICA_KERNELS_REGION_GAMMA_H_

#include "kernels/region/arithmetic.h"
#include "kernels/region/logarithms.h"
#include "kernels/region/pair_logarithm.h"

namespace mica::MICA_REGION_NAMESPACE {

// lgamma(2 + t) is (1 - Euler's gamma) t + (zeta(2) - 1) / 2 t^2 + t^3 P(t) for
// |t| <= 1/2.
template <class F>
MICA_LANES F LgammaTail(F t) {
  if constexpr (F::kIsDouble) {
    static constexpr double kLgamma[] = {
        -0.067352301053198199,   0.020580808427782718,   -0.007385551028657328,
        0.0028905103309274861,   -0.0011927539125358496, 0.0005096695177554721,
        -0.00022315473856626144, 9.9457645211478775e-5,  -4.4926501246340844e-5,
        2.0505789894122574e-5,   -9.4373927168511037e-6, 4.3838949235791748e-6,
        -2.0492791283355861e-6,  9.2181836578884923e-7,  -4.2081761386415011e-7,
        2.7714209198739194e-7,   -1.4277885849265228e-7};
    return Polynomial(t, kLgamma);
  } else {
    static constexpr double kLgamma[] = {
        -0.0673522502,  0.0205812398,   -0.00738709327, 0.00288158259,
        -0.00117899256, 0.000564518035, -0.000268779346};
    return Polynomial(t, kLgamma);
  }
}

// x (lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2)) for x >= 4.5, by
// z = 1 / x^2.
template <class F>
MICA_LANES F StirlingTail(F z) {
  if constexpr (F::kIsDouble) {
    static constexpr double kStirling[] = {
        0.083333333333333148,    -0.0027777777776426867, 0.00079365075901137731,
        -0.00059523358179805399, 0.0008414076693774111,  -0.0019012155531091548,
        0.0059086293867567112,   -0.019398440088372802,  0.041301874688787814};
    return Polynomial(z, kStirling);
  } else {
    static constexpr double kStirling[] = {0.0833333209, -0.00277610822,
                                           0.000738776231};
    return Polynomial(z, kStirling);
  }
}

// x (log(x) - 1) - log(x) / 2 + ..., given log(x), for x >= 4.5.
template <class F>
MICA_LANES Pair<F> LgammaOfLarge(F x, Pair<F> log) {
  // Of 2^-32 x, so that nothing overflows but the result.
  const F down = F::Of(0x1p-32), up = F::Of(0x1p32), small = x * down;
  const Pair<F> product = Product(small, log.hi - F::Of(1));
  const F inverse = F::Of(1) / x;
  const auto constant =  // log(2 pi) / 2.
      PairOf<F>(0x1.d67f1c864beb5p-1, -0x1.65b5a1b7ff5dfp-55);
  const F half = F::Of(-0.5);
  const F tail = Fma(half, log.hi, constant.hi) +
                 Fma(inverse, StirlingTail(inverse * inverse),
                     Fma(half, log.lo, constant.lo));
  const F lo = Fma(small, log.lo, product.lo);
  const Pair<F> sum = FastSum(product.hi, Fma(tail, down, lo));
  return {sum.hi * up, sum.lo * up};
}

// Of x > 0.
template <class F>
MICA_LANES Pair<F> LgammaOfPositive(F x) {
  const F zero = F::Of(0), one = F::Of(1), two = F::Of(2);
  const auto below_half = Less(x, F::Of(0.5)), below = Less(x, F::Of(1.5));
  const auto above = LessEqual(F::Of(2.5), x);
  const auto far_above = LessEqual(F::Of(3.5), x);
  const auto is_large = LessEqual(F::Of(4.5), x);
  // x = 2 + t + steps, and gamma(x) is gamma(2 + t) times or, below 1.5, over
  // factor * other.
  const F t = x - Select(above, Select(far_above, F::Of(4), F::Of(3)),
                         Select(below, Select(below_half, zero, one), two));
  const F factor = Select(above, x - one, Select(below, x, one));
  const F sum = one + x;
  const F other = Select(far_above, x - two, Select(below_half, sum, one));
  const F other_lo = Select(below_half, x - (sum - one), zero);
  Pair<F> product = Product(factor, other);
  product.lo = Fma(factor, other_lo, product.lo);
  const Pair<F> log = LogOfPair(Pair<F>{Select(is_large, x, product.hi),
                                        Select(is_large, zero, product.lo)});
  const auto slope = PairOf<F>(0x1.b0ee6072093cep-2, 0x1.6cb90701fbfabp-58);
  const auto bend = PairOf<F>(0x1.4a34cc4a60fa6p-2, 0x1.1873d8912200cp-56);
  const Pair<F> line = Product(Pair<F>{t, zero}, slope);
  const Pair<F> square = Product(t, t);
  const Pair<F> curve = Product(square, bend);
  const Pair<F> near_2 =
      Sum(line, Pair<F>{curve.hi, Fma(t * square.hi, LgammaTail(t), curve.lo)});
  const Pair<F> signed_log = {Select(below, -log.hi, log.hi),
                              Select(below, -log.lo, log.lo)};
  const Pair<F> near = Sum(near_2, signed_log);
  const Pair<F> large = LgammaOfLarge(x, log);
  return {Select(is_large, large.hi, near.hi),
          Select(is_large, large.lo, near.lo)};
}

// sin(pi r) for 0 <= r <= 1/2: r (pi + c z + z^2 P(z)) with z = r^2, or of
// u = 1/2 - r the cosine, 1 + d z + z^2 Q(z) with z = u^2.
template <class F>
MICA_LANES Pair<F> SinPi(F r) {
  const F zero = F::Of(0), one = F::Of(1), u = F::Of(0.5) - r;
  const auto is_near = LessEqual(r, u);
  const auto choose = [&](Pair<F> a, Pair<F> b) MICA_LANES_LAMBDA {
    return Pair<F>{Select(is_near, a.hi, b.hi), Select(is_near, a.lo, b.lo)};
  };
  const F root = Select(is_near, r, u);
  const Pair<F> z = Product(root, root);
  F tail = zero;
  if constexpr (F::kIsDouble) {
    static constexpr double kSinPi[] = {
        2.5501640398773442,     -0.5992645293205241,    0.082145886589566716,
        -0.0073704300933658297, 0.00046628502754794584, -2.1727437346509692e-5};
    static constexpr double kCosPi[] = {
        4.0587121264167614,    -1.3352627688531715,   0.23533063024413603,
        -0.025806886830840273, 0.0019294788084329531, -0.00010362487360718923};
    tail = Select(is_near, Polynomial(z.hi, kSinPi), Polynomial(z.hi, kCosPi));
  } else {
    static constexpr double kSinPi[] = {2.55016351, -0.599222302, 0.081156455};
    static constexpr double kCosPi[] = {4.0587101, -1.33511651, 0.231885284};
    tail = Select(is_near, Polynomial(z.hi, kSinPi), Polynomial(z.hi, kCosPi));
  }
  const auto pi = PairOf<F>(0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53);
  const auto slope =
      choose(PairOf<F>(-0x1.4abbce625be53p+2, 0x1.05511c68476a8p-52),
             PairOf<F>(-0x1.3bd3cc9be45dep+2, -0x1.692b71366cc04p-52));
  Pair<F> line = Product(z, slope);
  line.lo = Fma(z.hi * z.hi, tail, line.lo);
  const Pair<F> sum = Sum(choose(pi, Pair<F>{one, zero}), line);
  return Product(Pair<F>{Select(is_near, r, one), zero},
                 FastSum(sum.hi, sum.lo));
}

// lgamma(-x) = log(pi / (x sin(pi x))) - lgamma(x), given that, for x > 0.
template <class F>
MICA_LANES F LgammaOfNegative(F x, Pair<F> lgamma) {
  const F r = Abs(x - Round(x));
  const Pair<F> sin = SinPi(r);
  Pair<F> product = Product(sin.hi, x);
  product.lo = Fma(sin.lo, x, product.lo);
  const Pair<F> log = LogOfPair(product);
  const auto log_pi = PairOf<F>(0x1.250d048e7a1bdp+0, 0x1.7abf2ad8d5088p-57);
  Pair<F> y = Sum(log_pi, Pair<F>{-log.hi, -log.lo});
  y = Sum(y, Pair<F>{-lgamma.hi, -lgamma.lo});
  // Near 0 both are -log(x).
  const auto is_tiny = Less(x, F::Of(F::kIsDouble ? 0x1p-60 : 0x1p-30));
  const F sum = Select(is_tiny, lgamma.hi + lgamma.lo, y.hi + y.lo);
  const auto is_pole = Equal(r, F::Of(0)) | Equal(x, F::Of(kInfinity));
  return Select(is_pole, F::Of(kInfinity), sum);
}

// log(|gamma(x)|). At most 0.8 ulp for x > 0. Below that, or, as it has zeros
// where greater numbers cancel, 2^-26 (float) or 2^-55.
template <class F>
MICA_LANES F Lgamma(F x) {
  const F size = Abs(x), infinity = F::Of(kInfinity);
  const Pair<F> lgamma = LgammaOfPositive(size);
  const F y = Select(Less(size, infinity), lgamma.hi + lgamma.lo, size);
  return IfAny(LessEqual(x, F::Of(0)), y, [&]() MICA_LANES_LAMBDA {
    return LgammaOfNegative(size, lgamma);
  });
}

// digamma(x) / (x - root) where t = x - 1.7 and |t| <= 1/2; `root` is
// digamma's one for positive x.
template <class F>
MICA_LANES F DigammaSlope(F t) {
  if constexpr (F::kIsDouble) {
    static constexpr double kDigamma[] = {
        0.87489932250224844,    -0.34260698585977845,
        0.1701674238024474,     -0.091904545443708185,
        0.051583312701889601,   -0.02953466111564159,
        0.017097762506064797,   -0.0099609969930248808,
        0.005825012376197633,   -0.0034140703817651884,
        0.0020037675979897628,  -0.0011770910338194827,
        0.00069181030194803228, -0.00040630034587971962,
        0.00023887201594392654, -0.00014268203446251299,
        8.4076679054569654e-5,  -4.2467526011757648e-5,
        2.4683388469999923e-5,  -2.6935836117056219e-5,
        1.6081169273823871e-5};
    return Polynomial(t, kDigamma);
  } else {
    static constexpr double kDigamma[] = {
        0.874899328,   -0.342606992,  0.170166463,  -0.0919035152,
        0.0516137742,  -0.0295592472, 0.0167643726, -0.00972944777,
        0.00727861747, -0.00433148025};
    return Polynomial(t, kDigamma);
  }
}

// log(x) - 1 / (2 x) - P(1 / x^2) / x^2 for x >= 4.2.
template <class F>
MICA_LANES F DigammaOfLarge(F x) {
  const F inverse = F::Of(1) / x, z = inverse * inverse;
  F tail = F::Of(0);
  if constexpr (F::kIsDouble) {
    static constexpr double kTail[] = {
        0.083333333333326487,   -0.008333333328847177, 0.0039682529160634276,
        -0.0041665421834119112, 0.0075671921445787122, -0.020724162955167193,
        0.073006299212955303,   -0.24970526333060603,  0.51564227976795696};
    tail = Polynomial(z, kTail);
  } else {
    static constexpr double kTail[] = {0.0833331943, -0.00831956044,
                                       0.00355442963};
    tail = Polynomial(z, kTail);
  }
  return Log(x) - Fma(z, tail, F::Of(0.5) * inverse);
}

// Of x >= 0; -infinity of 0, infinity of -0.
template <class F>
MICA_LANES F DigammaOfPositive(F x) {
  const F zero = F::Of(0), one = F::Of(1), two = F::Of(2);
  const auto far_below = Less(x, F::Of(0.2)), below = Less(x, F::Of(1.2));
  const auto above = LessEqual(F::Of(2.2), x);
  const auto far_above = LessEqual(F::Of(3.2), x);
  // The root, less the steps from x to 1.2 <= x + steps < 2.2.
  const auto choose = [&](F at_most, F more, F none, F one_less,
                          F two_less) MICA_LANES_LAMBDA {
    return Select(above, Select(far_above, at_most, more),
                  Select(below, Select(far_below, two_less, one_less), none));
  };
  const auto at_4 = PairOf<F>(3.4616321449683625, -1.2654465062537432e-16);
  const auto at_3 = PairOf<F>(2.4616321449683625, -1.2654465062537432e-16);
  const auto at_2 = PairOf<F>(1.4616321449683622, 9.5499954299656974e-17);
  const auto at_1 = PairOf<F>(0.46163214496836236, -1.5522348162858677e-17);
  const auto at_0 = PairOf<F>(-0.53836785503163764, -1.5522348162858677e-17);
  const F root = choose(at_4.hi, at_3.hi, at_2.hi, at_1.hi, at_0.hi);
  const F root_lo = choose(at_4.lo, at_3.lo, at_2.lo, at_1.lo, at_0.lo);
  const F from_root = (x - root) - root_lo;
  const F near =
      from_root * DigammaSlope(from_root - F::Of(0.23836785503163766));
  // digamma(x + 1) = digamma(x) + 1 / x, for the steps, as one fraction.
  const F a = Select(above, x - one, Select(below, x, one));
  const F b = Select(far_above, x - two, Select(far_below, x + one, one));
  const F sum = Select(far_above | far_below, a + b, one);
  const F top = Select(below, -sum, Select(above, sum, zero));
  const F large = DigammaOfLarge(Max(F::Of(4.2), x));
  return Select(LessEqual(F::Of(4.2), x), large, near + top / (a * b));
}

// pi / tan(pi r) for |r| <= 1/2: 1 / r - r P(r^2), or of u = 1/2 - |r|
// u Q(u^2).
template <class F>
MICA_LANES F CotPi(F r) {
  const F size = Abs(r), u = F::Of(0.5) - size;
  F cot = F::Of(0), tan = F::Of(0);
  if constexpr (F::kIsDouble) {
    static constexpr double kCotPi[] = {
        3.2898681336964644, 2.1646464674149768, 2.0346861255471307,
        2.0081545449392939, 2.0019991988773418, 2.000128690967681,
        2.0081837772089699, 1.8934773059514027, 2.755803442639587};
    static constexpr double kTanPi[] = {
        9.869604401089358,  32.469697011333331,  128.18522581101143,
        512.07945120663692, 2048.0350117718026,  8191.9991477120502,
        32769.562776324099, 130970.64456120698,  528924.93270408467,
        1946116.5910644294, 11892654.126620281,  -23492861.213453509,
        762087534.9095068,  -3772983078.4169922, 17219561274.455799};
    cot = Polynomial(size * size, kCotPi);
    tan = Polynomial(u * u, kTanPi);
  } else {
    static constexpr double kCotPi[] = {3.28986549, 2.16505551, 2.01569295,
                                        2.35175228};
    static constexpr double kTanPi[] = {9.86960411, 32.4694481, 128.248276,
                                        506.204681, 2303.82617, 2676.45483,
                                        86644.8906};
    cot = Polynomial(size * size, kCotPi);
    tan = Polynomial(u * u, kTanPi);
  }
  const F near = F::Of(1) / r - r * cot;
  return Select(LessEqual(size, u), near, CopySign(u * tan, r));
}

// gamma's derivative over gamma. At most 4 ulp for x > 0. Below, where it is
// digamma(1 - x) - pi / tan(pi x), 4 ulp of the greater of these, or of 1.
template <class F>
MICA_LANES F Digamma(F x) {
  return IfAny(Less(x, F::Of(0)), DigammaOfPositive(x),
               [&]() MICA_LANES_LAMBDA {
                 const F size = Abs(x), one = F::Of(1), r = size - Round(size);
                 // 1 - x; the derivative is close to 1 / (1/2 - x).
                 const Pair<F> above = FastSum(Max(one, size), Min(one, size));
                 const F rest = above.lo / (above.hi - F::Of(0.5));
                 const F y = CotPi(r) + (DigammaOfPositive(above.hi) + rest);
                 return Select(Equal(r, F::Of(0)), F::Of(kNan), y);
               });
}

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_GAMMA_H_
