// The element types of tensors and host scalars.

#ifndef MICA_FRAMEWORK_TENSOR_DTYPE_H_
#define MICA_FRAMEWORK_TENSOR_DTYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace mica {

// In the order of type promotion within a category (bool < ints < floats <
// complex numbers). A complex number is two floats, the real part first; of all
// operators only views and those that run through ATen take them.
enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kI16,
  kI32,
  kI64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
};
inline constexpr int kNumDTypes = 12;
inline constexpr int kNumRealDTypes = 10;  // All before the complex ones.
inline constexpr DType kRealDTypes[kNumRealDTypes] = {
    DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
    DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// Bytes of one element.
int64_t ElementBytes(DType dtype);

// "f32", "i64", "bool", "c64" of two f32: the word of the text form.
absl::string_view DTypeName(DType dtype);

// Inverse of DTypeName; nothing for an unknown word.
std::optional<DType> ParseDType(absl::string_view name);

inline bool IsFloating(DType dtype) {
  return dtype >= DType::kF16 && dtype <= DType::kF64;
}
// Floats of 16 bits.
inline bool IsHalf(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16;
}
inline bool IsComplex(DType dtype) { return dtype >= DType::kC64; }
inline bool IsIntegral(DType dtype) {
  return dtype >= DType::kU8 && dtype <= DType::kI64;
}

// The dtype of a complex number's parts; another dtype itself.
DType RealDType(DType dtype);

// The type that both convert to in an arithmetic op, operands of one category
// weight. Source: torch's promotion table (i8 with u8 gives i16, f16 with bf16
// gives f32, c64 with f64 gives c128).
DType PromoteDTypes(DType a, DType b);

// Maps a C++ element type to its DType.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_TENSOR_DTYPE_H_
