#include "kernels/reference/host_arithmetic.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>

namespace mica {
namespace {

constexpr const char* kTooLarge =
    "an int from 2**53 on, which no float64 holds";

using Plain = double (*)(double a, double b);

// One that gives no errors.
template <Plain plain>
const char* Always(double a, double b, double* result) {
  *result = plain(a, b);
  return nullptr;
}

double Add(double a, double b) { return a + b; }
double Subtract(double a, double b) { return a - b; }
double Multiply(double a, double b) { return a * b; }
double Less(double a, double b) { return a < b ? 1 : 0; }
double LessEqual(double a, double b) { return a <= b ? 1 : 0; }
double Equal(double a, double b) { return a == b ? 1 : 0; }
double Negate(double a, double) { return -a; }
// The first of two that are equal, or of which none is the larger.
double Larger(double a, double b) { return b > a ? b : a; }
double Smaller(double a, double b) { return b < a ? b : a; }

// The same for whole numbers, which have no negative zero.
template <Plain plain>
const char* AlwaysInt(double a, double b, double* result) {
  *result = plain(a, b) + 0.0;
  return std::fabs(*result) < kHostIntLimit ? nullptr : kTooLarge;
}

const char* Divide(double a, double b, double* result) {
  if (b == 0) return "ZeroDivisionError: division by zero";
  *result = a / b;
  return nullptr;
}

const char* Power(double a, double b, double* result) {
  if (a == 0 && b < 0) {
    return "ZeroDivisionError: 0.0 cannot be raised to a negative power";
  }
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    return "a negative number to a fractional power is complex";
  }
  *result = std::pow(a, b);
  const bool overflows =
      std::isinf(*result) && std::isfinite(a) && std::isfinite(b);
  return overflows ? "OverflowError: result too large" : nullptr;
}

const char* SquareRoot(double a, double, double* result) {
  if (a < 0) return "ValueError: math domain error";
  *result = std::sqrt(a);
  return nullptr;
}

const char* Exp(double a, double, double* result) {
  *result = std::exp(a);
  return std::isinf(*result) && std::isfinite(a)
             ? "OverflowError: math range error"
             : nullptr;
}

template <double (*function)(double)>
const char* Log(double a, double, double* result) {
  if (a <= 0) return "ValueError: math domain error";
  *result = function(a);
  return nullptr;
}

double HyperbolicTangent(double a, double) { return std::tanh(a); }

template <double (*function)(double)>
const char* OfAngle(double a, double, double* result) {
  if (std::isinf(a)) return "ValueError: math domain error";
  *result = function(a);
  return nullptr;
}

// Rounds down; the remainder has the divisor's sign.
const char* DivideInts(double a, double b, double* quotient,
                       double* remainder) {
  if (b == 0) return "ZeroDivisionError: integer division or modulo by zero";
  if (!(std::fabs(a) < kHostIntLimit && std::fabs(b) < kHostIntLimit)) {
    return kTooLarge;
  }
  if (a != std::trunc(a) || b != std::trunc(b)) return "wants whole numbers";
  const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  int64_t div = x / y, mod = x % y;
  if (mod != 0 && (mod < 0) != (y < 0)) {
    --div;
    mod += y;
  }
  *quotient = static_cast<double>(div);
  *remainder = static_cast<double>(mod);
  return nullptr;
}

const char* FloorDivide(double a, double b, double* result) {
  double remainder = 0;
  return DivideInts(a, b, result, &remainder);
}

const char* Remainder(double a, double b, double* result) {
  double quotient = 0;
  return DivideInts(a, b, &quotient, result);
}

// As Python's, down to the signs of zeros (float_floor_div and float_rem in
// CPython's Objects/floatobject.c).
const char* FloatRemainder(double a, double b, double* result) {
  if (b == 0) return "ZeroDivisionError: float modulo";
  *result = std::fmod(a, b);
  if (*result == 0) {
    *result = std::copysign(0.0, b);
  } else if ((b < 0) != (*result < 0)) {
    *result += b;
  }
  return nullptr;
}

const char* FloatFloorDivide(double a, double b, double* result) {
  if (b == 0) return "ZeroDivisionError: float floor division by zero";
  const double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) {
    *result = std::copysign(0.0, a / b);
    return nullptr;
  }
  *result = std::floor(quotient);
  if (quotient - *result > 0.5) *result += 1;
  return nullptr;
}

const char* IntPower(double a, double b, double* result) {
  if (b < 0) return "a negative power is a float";
  if (!(b < kHostIntLimit && std::fabs(a) < kHostIntLimit)) return kTooLarge;
  if (a != std::trunc(a) || b != std::trunc(b)) return "wants whole numbers";
  double power = 1, square = a;
  for (auto left = static_cast<int64_t>(b); left > 0; left /= 2) {
    if (left % 2 != 0) power *= square;
    if (left > 1) square *= square;
    if (std::fabs(power) >= kHostIntLimit ||
        std::fabs(square) >= kHostIntLimit) {
      return kTooLarge;
    }
  }
  *result = power + 0.0;
  return nullptr;
}

double Magnitude(double a, double) { return std::fabs(a); }
double Floor(double a, double) { return std::floor(a); }
double Ceiling(double a, double) { return std::ceil(a); }
double Truncate(double a, double) { return std::trunc(a); }
// To the nearest, and to the even one of two.
double Round(double a, double) {
  const double rounded = std::round(a);
  return std::fabs(a - rounded) == 0.5 ? 2 * std::round(a / 2) : rounded;
}

// As float.__round__(): to the nearest decimal number of `b` places, of which
// the nearest float is the result.
const char* RoundTo(double a, double b, double* result) {
  constexpr double kMaxPlaces = 300;
  if (!(b >= 0 && b <= kMaxPlaces) || b != std::trunc(b)) {
    return "wants a number of places from 0 to 300";
  }
  *result = a;
  // Others have no places.
  if (!(std::fabs(a) < kHostIntLimit)) return nullptr;
  char digits[400];
  const auto text =
      std::to_chars(std::begin(digits), std::end(digits), a,
                    std::chars_format::fixed, static_cast<int>(b));
  std::from_chars(digits, text.ptr, *result);
  return nullptr;
}

constexpr HostOp kOps[] = {
    {"mica.int_add", AlwaysInt<Add>},
    {"mica.int_sub", AlwaysInt<Subtract>},
    {"mica.int_mul", AlwaysInt<Multiply>},
    {"mica.int_floordiv", FloorDivide, /*may_raise=*/true},
    {"mica.int_mod", Remainder, /*may_raise=*/true},
    {"mica.int_pow", IntPower},
    {"mica.int_abs", AlwaysInt<Magnitude>},
    {"mica.int_max", AlwaysInt<Larger>, /*may_raise=*/false,
     /*gives_operand=*/true},
    {"mica.int_min", AlwaysInt<Smaller>, /*may_raise=*/false,
     /*gives_operand=*/true},
    {"mica.int_floor", AlwaysInt<Floor>, /*may_raise=*/true},
    {"mica.int_ceil", AlwaysInt<Ceiling>, /*may_raise=*/true},
    {"mica.int_trunc", AlwaysInt<Truncate>, /*may_raise=*/true},
    {"mica.int_round", AlwaysInt<Round>, /*may_raise=*/true},
    {"mica.scalar_add", Always<Add>},
    {"mica.scalar_sub", Always<Subtract>},
    {"mica.scalar_mul", Always<Multiply>},
    {"mica.scalar_div", Divide, /*may_raise=*/true},
    {"mica.scalar_floordiv", FloatFloorDivide, /*may_raise=*/true},
    {"mica.scalar_mod", FloatRemainder, /*may_raise=*/true},
    {"mica.scalar_pow", Power, /*may_raise=*/true},
    {"mica.scalar_abs", Always<Magnitude>},
    {"mica.scalar_round", RoundTo},
    {"mica.scalar_lt", Always<Less>},
    {"mica.scalar_le", Always<LessEqual>},
    {"mica.scalar_eq", Always<Equal>},
    {"mica.scalar_max", Always<Larger>, /*may_raise=*/false,
     /*gives_operand=*/true},
    {"mica.scalar_min", Always<Smaller>, /*may_raise=*/false,
     /*gives_operand=*/true},
    {"mica.scalar_neg", Always<Negate>},
    {"mica.scalar_sqrt", SquareRoot, /*may_raise=*/true},
    {"mica.scalar_exp", Exp, /*may_raise=*/true},
    {"mica.scalar_log", Log<std::log>, /*may_raise=*/true},
    {"mica.scalar_log10", Log<std::log10>, /*may_raise=*/true},
    {"mica.scalar_log2", Log<std::log2>, /*may_raise=*/true},
    {"mica.scalar_tanh", Always<HyperbolicTangent>},
    {"mica.scalar_cos", OfAngle<std::cos>, /*may_raise=*/true},
    {"mica.scalar_sin", OfAngle<std::sin>, /*may_raise=*/true},
};

}  // namespace

absl::Span<const HostOp> HostOps() { return kOps; }

const HostOp* FindHostOp(absl::string_view name) {
  for (const HostOp& op : kOps) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace mica
