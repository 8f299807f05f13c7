// Arithmetic on float, double and int64_t as torch defines it. Integers wrap.

#ifndef MICA_KERNELS_REFERENCE_NUMBERS_H_
#define MICA_KERNELS_REFERENCE_NUMBERS_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace mica {

template <typename C>
C Sum(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename C>
C Difference(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  } else {
    return a - b;
  }
}

template <typename C>
C Product(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

template <typename C>
C Negated(C a) {
  if constexpr (std::is_integral_v<C>) {
    return Difference(C{0}, a);
  } else {
    return -a;
  }
}

template <typename C>
C Magnitude(C a) {
  if constexpr (std::is_integral_v<C>) {
    return a < 0 ? Negated(a) : a;
  } else {
    return std::fabs(a);
  }
}

template <typename C>
C Floor(C a) {
  if constexpr (std::is_integral_v<C>) return a;
  return static_cast<C>(std::floor(a));
}

template <typename C>
C Ceil(C a) {
  if constexpr (std::is_integral_v<C>) return a;
  return static_cast<C>(std::ceil(a));
}

template <typename C>
C Trunc(C a) {
  if constexpr (std::is_integral_v<C>) return a;
  return static_cast<C>(std::trunc(a));
}

// To the nearest integer, the even one of two.
template <typename C>
C Round(C a) {
  if constexpr (std::is_integral_v<C>) return a;
  return static_cast<C>(std::nearbyint(a));
}

// Towards zero. Requires b != 0 for integers.
template <typename C>
C TruncatedQuotient(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return b == -1 ? Difference(C{0}, a) : a / b;
  } else {
    return std::trunc(a / b);
  }
}

// With the sign of a. Requires b != 0 for integers.
template <typename C>
C TruncatedRemainder(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return b == -1 ? 0 : a % b;
  } else {
    return std::fmod(a, b);
  }
}

// With the sign of b. Requires b != 0 for integers.
template <typename C>
C FlooredRemainder(C a, C b) {
  const C rest = TruncatedRemainder(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

// The largest integer not above a / b, exact also where a / b rounds.
template <typename C>
C FlooredQuotient(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    const C quotient = TruncatedQuotient(a, b);
    return FlooredRemainder(a, b) != TruncatedRemainder(a, b) ? quotient - 1
                                                              : quotient;
  } else {
    if (b == 0) return a / b;
    C rest = std::fmod(a, b);
    C quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(C{0}, a / b);
    const C floored = std::floor(quotient);
    return quotient - floored > C{0.5} ? floored + 1 : floored;
  }
}

inline int64_t IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  int64_t result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = Product(result, base);
    base = Product(base, base);
  }
  return result;
}

template <typename C>
C Power(C base, C exponent) {
  if constexpr (std::is_integral_v<C>) {
    return IntegerPower(base, exponent);
  } else {
    return std::pow(base, exponent);
  }
}

template <typename C>
bool IsNan(C x) {
  return x != x;
}

// NaN if either is.
template <typename C>
C Larger(C a, C b) {
  if (IsNan(a)) return a;
  return IsNan(b) || b > a ? b : a;
}

template <typename C>
C Smaller(C a, C b) {
  if (IsNan(a)) return a;
  return IsNan(b) || b < a ? b : a;
}

template <typename C>
C Sigmoid(C x) {
  return static_cast<C>(1 / (1 + std::exp(-x)));
}

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_NUMBERS_H_
