#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/region/error_functions.h"
#include "kernels/region/exponentials.h"
#include "kernels/region/function_testing.h"
#include "kernels/region/logarithms.h"

// Each function against <cmath> in more bits. Compiled for what every
// processor of the architecture has; the loops' tests see the other levels.

namespace mica::region {
namespace {

// Points where a function's result leaves the range, or its way to it changes.
const std::initializer_list<double> kPoints = {
    0x1p-54, 0x1p-25, 0.25,    0.34657359, 0.5,     0.70710678, 0.99,
    1.03972, 1.41421, 1.5,     3.84,       5.4,     9.02,       9.19,
    10.05,   10.1,    16.6355, 17.3287,    26.5432, 27.2260,    38.6,
    87.3365, 88.0297, 88.7228, 89.416,     103.279, 103.972,    126,
    127,     128,     149,     150,        708.396, 709.783,    710.476,
    744.44,  745.133, 1022,    1023,       1024,    1074,       1075,
    8192,    0x1p28};

template <class T>
struct Case {
  const char* name;
  std::vector<T> (*run)(const std::vector<T>&);
  Wide<T> (*exact)(Wide<T>);
  double ulps;
  // An absolute error that is allowed besides; null for 0.
  double (*allowance)(T) = nullptr;
};

#define CASE(Name, exact, ...)                                                                 \
  {                                                                                            \
#Name,                                                                                     \
        [](const std::vector <T>&                                                              \
               x) { return Map(x,                                                              \
                               [](Tested<T> lanes) { return Name(lanes); }); },             \
                                                                                [](Wide <      \
                                                                                    T>         \
                                                                                       x)      \
                                                                                     -> Wide < \
                                                                                            T> \
    { return exact; }, __VA_ARGS__                                                             \
  }

template <class T>
constexpr double kEpsilon = std::numeric_limits<T>::epsilon();

// Where exp(-x) overflows sigmoid is 0, and silu -0.
template <class T>
double OfOverflow(T x) {
  const T limit = sizeof(T) == 4 ? T{-88.7f} : T{-709.7};
  return x < limit ? 256 * std::numeric_limits<T>::min() : 0;
}
// GELUs of negative x are differences.
template <class T>
double OfGelu(T x) {
  if (sizeof(T) == 8) return x < -37 ? std::numeric_limits<T>::min() : 0;
  return x < 0 ? 2 * kEpsilon<T> * -x : 0;
}
template <class T>
double OfGeluTanh(T x) {
  return x < -1 ? kEpsilon<T> / 2 * -x : 0;
}

template <class T>
std::vector<Case<T>> Cases() {
  using W = Wide<T>;
  static const W root_half = std::sqrt(W{0.5});
  static const W factor = std::sqrt(8 / std::acos(W{-1}));
  return {CASE(Exp, std::exp(x), 1.5),
          CASE(Exp2, std::exp2(x), 1.5),
          CASE(Expm1, std::expm1(x), 2.5),
          CASE(Sigmoid, 1 / (1 + std::exp(-x)), 3, OfOverflow<T>),
          CASE(Silu, x / (1 + std::exp(-x)), 3, OfOverflow<T>),
          CASE(Sinh, std::sinh(x), 3),
          CASE(Cosh, std::cosh(x), 2),
          CASE(Tanh, std::tanh(x), sizeof(T) == 4 ? 6 : 3),
          CASE(Log, std::log(x), 1),
          CASE(Log2, std::log2(x), 2),
          CASE(Log10, std::log10(x), 2),
          CASE(Log1p, std::log1p(x), 2),
          CASE(Asinh, std::asinh(x), 2),
          CASE(Acosh, std::acosh(x), 3),
          CASE(Atanh, std::atanh(x), 2.5),
          CASE(Erf, std::erf(x), sizeof(T) == 4 ? 6 : 2),
          CASE(Erfc, std::erfc(x), 5),
          CASE(Gelu, x / 2 * std::erfc(-x * root_half), 6, OfGelu<T>),
          CASE(GeluTanh,
               x / (1 + std::exp(-factor * (x + W{0.044715L} * x * x * x))), 3,
               OfGeluTanh<T>)};
}

template <class T>
class FunctionsTest : public testing::Test {};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(FunctionsTest, Elements);

TYPED_TEST(FunctionsTest, AreAsNearAsTheySay) {
  using T = TypeParam;
  std::vector<T> x = SpecialNumbers<T>(kPoints);
  const std::vector<T> more = NumbersOfAllSizes<T>();
  x.insert(x.end(), more.begin(), more.end());
  for (const Case<T>& c : Cases<T>()) {
    const std::vector<T> y = c.run(x);
    double worst = 0;
    T worst_x = 0, worst_y = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const Wide<T> exact = c.exact(x[i]);
      const double ulps = UlpsOff(y[i], exact);
      if (ulps <= worst) continue;
      if (c.allowance != nullptr &&
          std::abs(y[i] - exact) <= c.allowance(x[i])) {
        continue;
      }
      worst = ulps, worst_x = x[i], worst_y = y[i];
    }
    EXPECT_LE(worst, c.ulps) << c.name << "(" << worst_x << ") = " << worst_y
                             << ", wants " << static_cast<T>(c.exact(worst_x));
    this->RecordProperty(c.name, std::to_string(worst));
  }
}

TYPED_TEST(FunctionsTest, HaveNoErrorAtTheirSimplestPoints) {
  using T = TypeParam;
  for (const Case<T>& c : Cases<T>()) {
    const std::string name = c.name;
    if (name == "Exp" || name == "Exp2" || name == "Cosh" || name == "Erfc") {
      EXPECT_EQ(c.run({T{0}})[0], T{1}) << name;
    }
    if (name == "Log" || name == "Log2" || name == "Log10" || name == "Acosh") {
      EXPECT_EQ(c.run({T{1}})[0], T{0}) << name;
    }
  }
}

}  // namespace
}  // namespace mica::region
