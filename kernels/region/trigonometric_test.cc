#include "kernels/region/trigonometric.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/region/function_testing.h"
#include "kernels/region/inverse_trigonometric.h"

namespace mica::region {
namespace {

template <class T>
class TrigonometricTest : public testing::Test {
 protected:
  // Numbers of all kinds, what is near multiples of pi/2, and where a
  // function's way changes.
  static std::vector<T> Numbers() {
    std::vector<T> x = SpecialNumbers<T>({0.5, 0.785398, 3216, 0x1.9p20});
    const std::vector<T> more = NumbersOfAllSizes<T>();
    for (size_t i = 0; i < more.size(); i += 5) x.push_back(more[i]);
    const long double half_pi = std::acos(0.0L);
    for (int64_t n = 1; n < 5000; ++n) {
      const T near = static_cast<T>(static_cast<long double>(n) * half_pi);
      x.insert(x.end(), {near, -near, std::nextafter(near, T{0})});
    }
    for (int exponent = 10; exponent < std::numeric_limits<T>::max_exponent;
         ++exponent) {
      for (int part = 0; part < 16; ++part) {
        x.push_back(std::ldexp(T{1} + static_cast<T>(part) / 16, exponent));
      }
    }
    return x;
  }
  // Pairs of numbers of similar and of very different sizes.
  struct Pairs {
    std::vector<T> x, y;
  };
  static Pairs SomePairs() {
    Pairs pairs;
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal(0, 8);
    const std::vector<T> numbers = NumbersOfAllSizes<T>();
    for (size_t i = 0; i < numbers.size(); i += 5) {
      const T x = numbers[i];
      pairs.x.push_back(x);
      pairs.y.push_back(x * static_cast<T>(std::exp2(normal(random))));
      if (random() % 2 == 0) pairs.y.back() = -pairs.y.back();
    }
    return pairs;
  }
  template <class Function, class Exact>
  void ExpectNearOfPairs(const Pairs& pairs, Function function, Exact exact,
                         double ulps) {
    using F = Tested<T>;
    constexpr size_t kLanes = kTestedBytes / sizeof(T);
    double worst = 0;
    T worst_x = 0, worst_y = 0, worst_got = 0;
    for (size_t i = 0; i + kLanes <= pairs.x.size(); i += kLanes) {
      T got[kLanes];
      StoreLanes(
          got, function(LoadLanes<F>(&pairs.x[i]), LoadLanes<F>(&pairs.y[i])));
      for (size_t j = 0; j < kLanes; ++j) {
        const T x = pairs.x[i + j], y = pairs.y[i + j];
        const double off = UlpsOff(got[j], exact(Wide<T>{x}, Wide<T>{y}));
        if (off <= worst) continue;
        worst = off, worst_x = x, worst_y = y, worst_got = got[j];
      }
    }
    EXPECT_LE(worst, ulps) << "of " << worst_x << " and " << worst_y
                           << " gives " << worst_got;
    this->RecordProperty("ulps", std::to_string(worst));
  }
};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(TrigonometricTest, Elements);

TYPED_TEST(TrigonometricTest, FunctionsOfAllAnglesAreAsNearAsTheySay) {
  const std::vector<TypeParam> x = this->Numbers();
  ExpectNear(
      "sin", x, [](auto v) { return Sin(v); },
      [](auto v) { return std::sin(v); }, 2);
  ExpectNear(
      "cos", x, [](auto v) { return Cos(v); },
      [](auto v) { return std::cos(v); }, 2);
  ExpectNear(
      "tan", x, [](auto v) { return Tan(v); },
      [](auto v) { return std::tan(v); }, 4);
}

TYPED_TEST(TrigonometricTest, InverseFunctionsAreAsNearAsTheySay) {
  const std::vector<TypeParam> x = this->Numbers();
  ExpectNear(
      "asin", x, [](auto v) { return Asin(v); },
      [](auto v) { return std::asin(v); }, 2);
  ExpectNear(
      "acos", x, [](auto v) { return Acos(v); },
      [](auto v) { return std::acos(v); }, 1.5);
  ExpectNear(
      "atan", x, [](auto v) { return Atan(v); },
      [](auto v) { return std::atan(v); }, 1.5);
}

TYPED_TEST(TrigonometricTest, FunctionsOfTwoNumbersAreAsNearAsTheySay) {
  const auto pairs = this->SomePairs();
  this->ExpectNearOfPairs(
      pairs, [](auto y, auto x) { return Atan2(y, x); },
      [](auto y, auto x) { return std::atan2(y, x); }, 2);
  this->ExpectNearOfPairs(
      pairs, [](auto x, auto y) { return Hypot(x, y); },
      [](auto x, auto y) { return std::hypot(x, y); }, 1.5);
}

TYPED_TEST(TrigonometricTest, FunctionsOfTwoNumbersHaveTheSpecialCasesOfC) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  typename TestFixture::Pairs pairs;
  const std::initializer_list<T> sizes = {0,
                                          1,
                                          2,
                                          Limits::denorm_min(),
                                          Limits::min(),
                                          Limits::max(),
                                          Limits::infinity(),
                                          Limits::quiet_NaN()};
  for (T a : sizes) {
    for (T b : sizes) {
      pairs.x.insert(pairs.x.end(), {a, -a, a, -a});
      pairs.y.insert(pairs.y.end(), {b, b, -b, -b});
    }
  }
  this->ExpectNearOfPairs(
      pairs, [](auto y, auto x) { return Atan2(y, x); },
      [](auto y, auto x) { return std::atan2(y, x); }, 1);
  this->ExpectNearOfPairs(
      pairs, [](auto x, auto y) { return Hypot(x, y); },
      [](auto x, auto y) { return std::hypot(x, y); }, 1);
}

}  // namespace
}  // namespace mica::region
