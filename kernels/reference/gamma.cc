#include "kernels/reference/gamma.h"

#include <cmath>
#include <limits>

namespace mica {

double LogGamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);  // std::lgamma() writes a global.
}

// By the recurrence up to where the asymptotic series is exact; what is
// negative is reflected.
double Digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (std::isnan(x)) return x;
  if (x < 0) {
    if (std::isinf(x) || x == std::trunc(x)) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    const double rest = x - std::trunc(x);
    return Digamma(1 - x) - M_PI / std::tan(M_PI * rest);
  }
  // In long doubles: the sums cancel near the zero at 1.46.
  long double sum = 0, at = x;
  for (; at < 30; at += 1) sum -= 1 / at;
  // The series' coefficients are Bernoulli numbers over 2n.
  static constexpr long double kTerms[] = {
      1.0L / 12,  -1.0L / 120,     1.0L / 252, -1.0L / 240,
      1.0L / 132, -691.0L / 32760, 1.0L / 12};
  const long double inverse = 1 / (at * at);
  long double power = inverse;
  sum += std::log(at) - 0.5L / at;
  for (long double term : kTerms) {
    sum -= term * power;
    power *= inverse;
  }
  return static_cast<double>(sum);
}

// By bisection of erfc, which is exact in both tails.
double InverseErf(double x) {
  if (std::isnan(x) || std::fabs(x) > 1) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (x == 0) return x;
  if (std::fabs(x) == 1) {
    return std::copysign(std::numeric_limits<double>::infinity(), x);
  }
  // Newton's steps from a bisected start.
  double low = 0, high = 7;
  const long double size = std::fabs(static_cast<long double>(x));
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erf(static_cast<long double>(middle)) < size ? low : high) = middle;
  }
  long double y = low;
  for (int i = 0; i < 4; ++i) {
    const long double error = std::erfc(y) - (1 - size);
    y += error / (2 / std::sqrt(static_cast<long double>(M_PI))) *
         std::exp(y * y);
  }
  return std::copysign(static_cast<double>(y), x);
}

}  // namespace mica
