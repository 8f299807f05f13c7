#include "kernels/region/power.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/region/function_testing.h"

namespace mica::region {
namespace {

template <class T>
class PowerTest : public testing::Test {
 protected:
  // The largest error of x[i]^y[i], and where it is.
  struct Worst {
    double ulps = 0;
    T x = 0, y = 0, got = 0;
  };
  Worst Find(const std::vector<T>& x, const std::vector<T>& y) {
    using F = Tested<T>;
    constexpr int kLanes = kTestedBytes / sizeof(T);
    Worst worst;
    for (size_t i = 0; i + kLanes <= x.size(); i += kLanes) {
      T got[kLanes];
      StoreLanes(got, Pow(LoadLanes<F>(&x[i]), LoadLanes<F>(&y[i])));
      for (size_t j = 0; j < kLanes; ++j) {
        const T a = x[i + j], b = y[i + j];
        const double ulps = UlpsOff(got[j], std::pow(Wide<T>{a}, Wide<T>{b}));
        if (ulps > worst.ulps) worst = {ulps, a, b, got[j]};
      }
    }
    return worst;
  }
  void ExpectNear(const std::vector<T>& x, const std::vector<T>& y) {
    const Worst worst = Find(x, y);
    EXPECT_LE(worst.ulps, 2)
        << "pow(" << worst.x << ", " << worst.y << ") = " << worst.got
        << ", wants " << std::pow(worst.x, worst.y);
    this->RecordProperty("ulps", std::to_string(worst.ulps));
  }
};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(PowerTest, Elements);

TYPED_TEST(PowerTest, HasTheSpecialCasesOfC) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  std::vector<T> numbers;
  for (T size : {T{0}, T{0.5}, T{1}, T{1.5}, T{2}, T{3}, T{1e9}, T{1e30},
                 T{1} + Limits::epsilon(), T{1} - Limits::epsilon(),
                 1 / Limits::epsilon(), 2 / Limits::epsilon(),
                 2 / Limits::epsilon() - 1, Limits::denorm_min(), Limits::min(),
                 Limits::max(), Limits::infinity(), Limits::quiet_NaN()}) {
    numbers.insert(numbers.end(), {size, -size});
  }
  std::vector<T> x, y;
  for (T a : numbers) {
    for (T b : numbers) {
      // Beside usual ones, which must not change.
      x.insert(x.end(), {a, T{2}, a, a});
      y.insert(y.end(), {b, T{3}, b, b});
    }
  }
  x.resize(x.size() / 16 * 16), y.resize(x.size());
  this->ExpectNear(x, y);
}

TYPED_TEST(PowerTest, IsNearForResultsOfAllSizes) {
  using T = TypeParam;
  const double range = sizeof(T) == 4 ? 152 : 1080;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const std::vector<T> sizes = NumbersOfAllSizes<T>();
  std::vector<T> x, y;
  const auto add = [&](T base) {
    // Of which the power is in the range, or little beyond it.
    const double log = std::log2(std::abs(static_cast<double>(base)));
    x.push_back(base);
    y.push_back(static_cast<T>(range * uniform(random) / log));
  };
  for (int i = 0; i < 400000; ++i) {
    add(std::abs(sizes[random() % sizes.size()]));
    add(static_cast<T>(1 + std::ldexp(uniform(random), -(i % 53))));
    x.push_back(static_cast<T>(20 * uniform(random)));
    y.push_back(static_cast<T>(static_cast<int>(random() % 41) - 20));
    x.push_back(static_cast<T>(20 * std::abs(uniform(random))));
    y.push_back(static_cast<T>(20 * uniform(random)));
  }
  this->ExpectNear(x, y);
}

}  // namespace
}  // namespace mica::region
