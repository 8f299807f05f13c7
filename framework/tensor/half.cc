#include "framework/tensor/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace mica {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

float BFloat16ToFloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

float HalfToFloat(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  float value;
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = BitsOf(value);
  if (std::isnan(value)) return 0x7fc0;
  const uint32_t rounding = 0x7fff + ((bits >> 16) & 1);
  return static_cast<uint16_t>((bits + rounding) >> 16);
}

uint16_t FloatToHalf(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  // 65520 lies half-way between the largest half and the next power of two.
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The spacing of halves around `magnitude`, at least the smallest one.
  const int spacing = std::max(exponent - 11, -24);
  const int steps =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, -spacing)));
  if (spacing == -24) return sign | static_cast<uint16_t>(steps);
  // `steps` is 1024..2048; a carry moves into the exponent by itself.
  const int biased = spacing + 25;
  return sign | static_cast<uint16_t>((biased << 10) + (steps - 1024));
}

double RoundedTo(DType dtype, double value) {
  const float narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::kF32:
      return narrow;
    case DType::kF16:
      return HalfToFloat(FloatToHalf(narrow));
    case DType::kBF16:
      return BFloat16ToFloat(FloatToBFloat16(narrow));
    default:
      return value;
  }
}

}  // namespace mica
