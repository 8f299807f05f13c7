// For tests of a region's functions: how far they are from exact values.

#ifndef MICA_KERNELS_REGION_FUNCTION_TESTING_H_
#define MICA_KERNELS_REGION_FUNCTION_TESTING_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/region/lanes.h"

namespace mica::region {

#if defined(__AVX512F__)
inline constexpr int kTestedBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kTestedBytes = 32;
#else
inline constexpr int kTestedBytes = 16;
#endif
// A register of T.
template <class T>
using Tested = Floats<T, kTestedBytes / sizeof(T)>;

// What exact values are computed in.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;

inline constexpr double kWrong = 1e300;

// Units in the last place of `exact` as a T; of a denormal, of the smallest
// one. kWrong if one of them is a nan, the exact one an infinity, or the sign
// another, a zero's too. Infinity counts as the power of two that it begins at.
template <class T>
double UlpsOff(T got, Wide<T> exact) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(got) || std::isnan(exact)) {
    return std::isnan(got) && std::isnan(exact) ? 0 : kWrong;
  }
  if (std::isinf(exact)) return got == exact ? 0 : kWrong;
  if (std::signbit(got) != std::signbit(exact)) return kWrong;
  const Wide<T> end = std::ldexp(Wide<T>{1}, Limits::max_exponent);
  const Wide<T> size = std::min(end, std::abs(exact));
  int exponent = 0;
  std::frexp(size, &exponent);
  if (size == 0) exponent = Limits::min_exponent;
  exponent = std::clamp(exponent, Limits::min_exponent, Limits::max_exponent);
  const Wide<T> ulp = std::ldexp(Wide<T>{1}, exponent - Limits::digits);
  const Wide<T> got_size = std::min(end, Wide<T>{std::abs(got)});
  return static_cast<double>(std::abs(got_size - size) / ulp);
}

// Both signs of numbers of all kinds: limits, infinity and nan, and for each
// of `points`, where something changes, its neighbours.
template <class T>
std::vector<T> SpecialNumbers(std::initializer_list<double> points) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x = {0, Limits::infinity(), Limits::quiet_NaN()};
  std::vector<T> middles = {1, 2, Limits::denorm_min(), Limits::min(),
                            Limits::max()};
  for (double point : points) middles.push_back(static_cast<T>(point));
  for (T middle : middles) {
    T below = middle, above = middle;
    for (int i = 0; i < 500; ++i) {
      x.insert(x.end(), {below, above});
      below = std::nextafter(below, T{0});
      above = std::nextafter(above, Limits::infinity());
    }
  }
  const size_t n = x.size();
  for (size_t i = 0; i < n; ++i) x.push_back(-x[i]);
  return x;
}

// Numbers of all sizes: every 4099th of all floats, or random bits and random
// numbers of the usual sizes.
template <class T>
std::vector<T> NumbersOfAllSizes() {
  std::vector<T> x;
  if constexpr (sizeof(T) == 4) {
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099) {
      x.push_back(std::bit_cast<T>(static_cast<uint32_t>(bits)));
    }
  } else {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (int i = 0; i < 50000; ++i) {
      const double part = std::ldexp(uniform(random), -(i % 60));
      x.insert(x.end(), {std::bit_cast<T>(random()), 800 * uniform(random),
                         8 * uniform(random), part, 1 + part});
    }
  }
  return x;
}

// y[i] = function(x[i]).
template <class T, class Function>
std::vector<T> Map(const std::vector<T>& x, Function function) {
  using F = Tested<T>;
  constexpr int kLanes = kTestedBytes / sizeof(T);
  std::vector<T> y(x.size());
  for (size_t i = 0; i < x.size(); i += kLanes) {
    T in[kLanes] = {}, out[kLanes];
    const size_t n = std::min<size_t>(kLanes, x.size() - i);
    std::copy_n(&x[i], n, in);
    StoreLanes(out, function(LoadLanes<F>(in)));
    std::copy_n(out, n, &y[i]);
  }
  return y;
}

// Expects function(x[i]) at most `ulps` units, and what allowance(x[i]) says
// besides, from exact(x[i]).
template <class T, class Function, class Exact>
void ExpectNear(
    const char* name, const std::vector<T>& x, Function function, Exact exact,
    double ulps, double (*allowance)(T) = [](T) { return 0.0; }) {
  const std::vector<T> y = Map(x, function);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide<T> wanted = exact(Wide<T>{x[i]});
    const double off = UlpsOff(y[i], wanted);
    if (off > worst && !(std::abs(y[i] - wanted) <= allowance(x[i]))) {
      worst = off, at = i;
    }
  }
  EXPECT_LE(worst, ulps) << name << "(" << x[at] << ") = " << y[at]
                         << ", wants " << exact(Wide<T>{x[at]});
  testing::Test::RecordProperty(name, std::to_string(worst));
}

}  // namespace mica::region

#endif  // MICA_KERNELS_REGION_FUNCTION_TESTING_H_
