#include "kernels/region/division.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/region/function_testing.h"

namespace mica::region {
namespace {

template <class T>
bool IsSame(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

// PyTorch's, by <cmath>.
template <class T>
T ScalarRemainder(T a, T b) {
  const T mod = std::fmod(a, b);
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}
template <class T>
T ScalarFloorDiv(T a, T b) {
  if (b == 0) return a / b;
  const T mod = std::fmod(a, b);
  T quotient = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T{0}, a / b);
  const T floor = std::floor(quotient);
  return quotient - floor > T{0.5} ? floor + 1 : floor;
}

template <class T>
class DivisionTest : public testing::Test {
 protected:
  // All three, of a[i] and b[i], are the scalar functions' to the bit.
  void ExpectExact(std::vector<T> a, std::vector<T> b) {
    using F = Tested<T>;
    constexpr size_t kLanes = kTestedBytes / sizeof(T);
    a.resize((a.size() + kLanes - 1) / kLanes * kLanes, 1);
    b.resize(a.size(), 1);
    for (size_t i = 0; i < a.size(); i += kLanes) {
      const F x = LoadLanes<F>(&a[i]), y = LoadLanes<F>(&b[i]);
      T mod[kLanes], remainder[kLanes], floor_div[kLanes];
      StoreLanes(mod, Fmod(x, y));
      StoreLanes(remainder, Remainder(x, y));
      StoreLanes(floor_div, FloorDiv(x, y));
      for (size_t j = 0; j < kLanes; ++j) {
        const T p = a[i + j], q = b[i + j];
        ASSERT_TRUE(IsSame(mod[j], std::fmod(p, q)))
            << "fmod(" << p << ", " << q << ") = " << mod[j];
        ASSERT_TRUE(IsSame(remainder[j], ScalarRemainder(p, q)))
            << "remainder(" << p << ", " << q << ") = " << remainder[j];
        ASSERT_TRUE(IsSame(floor_div[j], ScalarFloorDiv(p, q)))
            << "floor_div(" << p << ", " << q << ") = " << floor_div[j];
      }
    }
  }
};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(DivisionTest, Elements);

TYPED_TEST(DivisionTest, IsExactForNumbersOfAllSizes) {
  using T = TypeParam;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::mt19937_64 random(1);
  std::vector<T> a, b;
  for (int i = 0; i < 20000; ++i) {
    a.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    b.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
  }
  this->ExpectExact(a, b);
}

TYPED_TEST(DivisionTest, IsExactForUsualRatiosAndWholeOnes) {
  using T = TypeParam;
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal(0, 1);
  std::vector<T> a, b;
  for (int i = 0; i < 100000; ++i) {
    const T step = static_cast<T>(normal(random));
    const T whole = static_cast<T>(static_cast<int>(random() % 5000));
    const T near = std::nextafter(whole * step, T{0});
    a.insert(a.end(), {static_cast<T>(100 * normal(random)), whole * step, near,
                       whole, -whole});
    b.insert(b.end(), {step, step, step, std::round(8 * step) / 8, T{7}});
  }
  this->ExpectExact(a, b);
}

TYPED_TEST(DivisionTest, IsExactWhereTheRatioOverflowsOrNearlyDoes) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> a, b;
  for (int exponent = Limits::min_exponent - Limits::digits;
       exponent < Limits::max_exponent; ++exponent) {
    for (int i = 0; i < 8; ++i) {
      const T digits = static_cast<T>(uniform(random));
      a.push_back(static_cast<T>(uniform(random)) * Limits::max());
      b.push_back(std::ldexp(digits, exponent));
    }
  }
  this->ExpectExact(a, b);
}

TYPED_TEST(DivisionTest, OfZerosInfinitiesAndNansIsAsInPyTorch) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  std::vector<T> a, b;
  for (T x : {T{0}, T{1}, T{4}, Limits::denorm_min(), Limits::min(),
              Limits::max(), Limits::infinity(), Limits::quiet_NaN()}) {
    for (T y : {T{0}, T{1}, T{2}, T{3}, Limits::denorm_min(), Limits::max(),
                Limits::infinity(), Limits::quiet_NaN()}) {
      a.insert(a.end(), {x, -x, x, -x});
      b.insert(b.end(), {y, y, -y, -y});
    }
  }
  this->ExpectExact(a, b);
}

}  // namespace
}  // namespace mica::region
