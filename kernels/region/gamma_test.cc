#include "kernels/region/gamma.h"

#include <math.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/region/function_testing.h"
#include "kernels/region/inverse_error_function.h"

namespace mica::region {
namespace {

using Exact = long double;

Exact ExactLgamma(Exact x) {
  int sign = 0;  // lgamma of <cmath> writes a global.
  return lgammal_r(x, &sign);
}
// Near the root by Taylor's series, elsewhere by that for large numbers, which
// x reaches in steps, and reflection.
Exact ExactDigamma(Exact x) {
  const Exact pi = std::acos(Exact{-1});
  if (x == 0) return std::copysign(std::numeric_limits<Exact>::infinity(), -x);
  if (x < 0) {
    const Exact rest = x - std::nearbyint(x);
    if (rest == 0 || std::isinf(x))
      return std::numeric_limits<Exact>::quiet_NaN();
    const Exact size = std::abs(rest);
    const Exact tan =
        size <= 0.25L ? std::tan(pi * size) : 1 / std::tan(pi * (0.5L - size));
    return ExactDigamma(1 - x) - std::copysign(pi / tan, rest);
  }
  const Exact from_root =
      (x - 1.4616321449683622L) - 1.412626595423257213285e-16L;
  if (std::abs(from_root) < 0.01L) {
    Exact y = 0;
    for (const Exact c :
         {0.02259764823221810465962L, -0.03316112647484735929226L,
          0.04880428816414310722509L, -0.07219956125645471092612L,
          0.1078240506912623657572L, -0.1639427054424065275043L,
          0.2584997609556510106244L, -0.4427631689835921060929L,
          0.9676722454476211704274L}) {
      y = (y + c) * from_root;
    }
    return y;
  }
  Exact steps = 0;
  for (; x < 30; ++x) steps += 1 / x;
  if (std::isinf(x)) return x;
  const Exact z = 1 / (x * x);
  const Exact tail =
      z / 12 *
      (1 - z / 10 *
               (1 - z * 10 / 21 *
                        (1 - z * 21 / 20 *
                                 (1 - z * 20 / 11 *
                                          (1 - z * 691 / 273 * 11 / 10)))));
  return std::log(x) - 0.5L / x - tail - steps;
}
// Newton's method, from below.
Exact ExactErfinv(Exact x) {
  const Exact size = std::abs(x);
  if (!(size < 1)) {
    const Exact infinity = std::numeric_limits<Exact>::infinity();
    return size == 1 ? x * infinity : std::numeric_limits<Exact>::quiet_NaN();
  }
  const Exact factor = std::sqrt(std::acos(Exact{-1})) / 2;
  Exact y = 0.86L * std::sqrt(-std::log1p(-size) - std::log1p(size));
  if (size < 0.01L) y = factor * size;
  for (Exact step = y; std::abs(step) > 1e-18L * y;) {
    const Exact off =
        size < 0.5L ? size - std::erf(y) : std::erfc(y) - (1 - size);
    step = factor * std::exp(y * y) * off;
    y += step;
  }
  return std::copysign(y, x);
}

template <class T>
class GammaTest : public testing::Test {
 protected:
  static std::vector<T> Numbers() {
    std::vector<T> x = SpecialNumbers<T>(
        {0.2, 0.5, 0.7, 1.2, 1.4616, 1.5, 2.2, 2.5, 3.2, 3.5, 4.2, 4.5, 10});
    const std::vector<T> more = NumbersOfAllSizes<T>();
    for (size_t i = 0; i < more.size(); i += 7) x.push_back(more[i]);
    std::mt19937_64 random(5);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (int i = 0; i < 20000; ++i) {
      x.push_back(static_cast<T>(6 * uniform(random)));
      x.push_back(static_cast<T>(100 * uniform(random)));
    }
    return x;
  }
};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(GammaTest, Elements);

// Of a sum that may be 0: half a unit of the last place of a part.
template <class T>
double OfParts(Exact part) {
  return std::numeric_limits<T>::epsilon() / 2 *
         static_cast<double>(std::abs(part));
}

template <class T>
double OfDigamma(T x) {
  if (!(x < 0)) return 0;
  const Exact above = ExactDigamma(1 - Exact{x});
  const Exact tangent = std::abs(above - ExactDigamma(x));
  return 4 * OfParts<T>(std::max({Exact{1}, above, tangent}));
}

TYPED_TEST(GammaTest, LgammaIsAsNearAsItSays) {
  using T = TypeParam;
  ExpectNear(
      "lgamma", this->Numbers(), [](auto x) { return Lgamma(x); },
      [](auto x) { return static_cast<decltype(x)>(ExactLgamma(x)); }, 1,
      +[](T x) { return x < 0 ? OfParts<T>(0.25) : 0.0; });
}

TYPED_TEST(GammaTest, DigammaIsAsNearAsItSays) {
  using T = TypeParam;
  ExpectNear(
      "digamma", this->Numbers(), [](auto v) { return Digamma(v); },
      [](auto v) { return static_cast<decltype(v)>(ExactDigamma(v)); }, 4,
      +[](T v) { return OfDigamma<T>(v); });
}

TYPED_TEST(GammaTest, ErfinvIsAsNearAsItSays) {
  using T = TypeParam;
  std::vector<T> x = this->Numbers();
  for (int i = 0; i < 2000; ++i) {
    x.push_back(T{1} - static_cast<T>(std::exp2(-i / 40.0)));
    x.push_back(-x.back());
  }
  ExpectNear(
      "erfinv", x, [](auto v) { return Erfinv(v); },
      [](auto v) { return static_cast<decltype(v)>(ExactErfinv(v)); }, 2);
}

TYPED_TEST(GammaTest, PolesAndLimitsAreAsInPyTorch) {
  using T = TypeParam;
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const auto lgamma = Map(std::vector<T>{0, T{-0.0}, -1, -2, -kInf, kInf},
                          [](auto x) { return Lgamma(x); });
  for (T y : lgamma) EXPECT_EQ(y, kInf);
  const auto digamma = Map(std::vector<T>{0, T{-0.0}, kInf, -1, -2, -kInf},
                           [](auto x) { return Digamma(x); });
  EXPECT_EQ(digamma[0], -kInf);
  EXPECT_EQ(digamma[1], kInf);
  EXPECT_EQ(digamma[2], kInf);
  for (int i = 3; i < 6; ++i) EXPECT_TRUE(std::isnan(digamma[i]));
  const auto erfinv = Map(std::vector<T>{1, -1, T{1.5}, kInf},
                          [](auto x) { return Erfinv(x); });
  EXPECT_EQ(erfinv[0], kInf);
  EXPECT_EQ(erfinv[1], -kInf);
  EXPECT_TRUE(std::isnan(erfinv[2]) && std::isnan(erfinv[3]));
}

}  // namespace
}  // namespace mica::region
