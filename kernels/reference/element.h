// Reads and writes of one element of any dtype, converted as torch converts.

#ifndef MICA_KERNELS_REFERENCE_ELEMENT_H_
#define MICA_KERNELS_REFERENCE_ELEMENT_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "framework/tensor/dtype.h"
#include "framework/tensor/half.h"

namespace mica {

// `value` as a To. Floats become integers by dropping the fraction; those out
// of range become the smallest integer, as x86 has it.
template <typename To, typename From>
To ConvertNumber(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr From kLimit = static_cast<From>(9223372036854775808.0);
    if (!(value >= -kLimit && value < kLimit)) {
      return static_cast<To>(std::numeric_limits<int64_t>::min());
    }
    return static_cast<To>(static_cast<int64_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

// Calls `visit(pointer)` with `data` as a pointer to the dtype's C++ type; the
// two 16-bit floats are left to the caller.
template <typename Visitor>
void VisitNative(DType dtype, Visitor&& visit) {
  switch (dtype) {
    case DType::kU8:
      return visit(uint8_t{});
    case DType::kI8:
      return visit(int8_t{});
    case DType::kI16:
      return visit(int16_t{});
    case DType::kI32:
      return visit(int32_t{});
    case DType::kI64:
      return visit(int64_t{});
    case DType::kF32:
      return visit(float{});
    case DType::kF64:
      return visit(double{});
    case DType::kBool:
    case DType::kF16:
    case DType::kBF16:
    case DType::kC64:
    case DType::kC128:
      break;
  }
}

// Element `index` of `data` as a C: float, double or int64_t.
template <typename C>
C LoadElement(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kBool:
      return static_cast<const uint8_t*>(data)[index] != 0 ? C{1} : C{0};
    case DType::kF16:
      return ConvertNumber<C>(
          HalfToFloat(static_cast<const uint16_t*>(data)[index]));
    case DType::kBF16:
      return ConvertNumber<C>(
          BFloat16ToFloat(static_cast<const uint16_t*>(data)[index]));
    default:
      C value{};
      VisitNative(dtype, [&](auto type) {
        value =
            ConvertNumber<C>(static_cast<const decltype(type)*>(data)[index]);
      });
      return value;
  }
}

// True if element `index` is not 0, NaN included.
inline bool LoadTruth(const void* data, DType dtype, int64_t index) {
  if (IsFloating(dtype)) return LoadElement<double>(data, dtype, index) != 0;
  return LoadElement<int64_t>(data, dtype, index) != 0;
}

template <typename C>
void StoreElement(void* data, DType dtype, int64_t index, C value) {
  switch (dtype) {
    case DType::kBool:
      static_cast<uint8_t*>(data)[index] = value != 0;
      return;
    case DType::kF16:
      static_cast<uint16_t*>(data)[index] =
          FloatToHalf(static_cast<float>(value));
      return;
    case DType::kBF16:
      static_cast<uint16_t*>(data)[index] =
          FloatToBFloat16(static_cast<float>(value));
      return;
    default:
      VisitNative(dtype, [&](auto type) {
        using T = decltype(type);
        static_cast<T*>(data)[index] = ConvertNumber<T>(value);
      });
  }
}

// `value` as it would be after a round trip through `dtype`, an integer type.
inline int64_t WrapTo(DType dtype, int64_t value) {
  int64_t wrapped = value;
  VisitNative(dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) wrapped = static_cast<T>(value);
  });
  return wrapped;
}

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_ELEMENT_H_
