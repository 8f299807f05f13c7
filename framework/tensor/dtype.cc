#include "framework/tensor/dtype.h"

#include <algorithm>
#include <array>

namespace mica {
namespace {

struct DTypeFacts {
  absl::string_view name;
  int64_t bytes;
};

// Indexed by DType.
constexpr std::array<DTypeFacts, kNumDTypes> kFacts = {{
    {"bool", 1},
    {"u8", 1},
    {"i8", 1},
    {"i16", 2},
    {"i32", 4},
    {"i64", 8},
    {"f16", 2},
    {"bf16", 2},
    {"f32", 4},
    {"f64", 8},
    {"c64", 8},
    {"c128", 16},
}};

}  // namespace

int64_t ElementBytes(DType dtype) {
  return kFacts[static_cast<int>(dtype)].bytes;
}

absl::string_view DTypeName(DType dtype) {
  return kFacts[static_cast<int>(dtype)].name;
}

std::optional<DType> ParseDType(absl::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kFacts[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

DType RealDType(DType dtype) {
  switch (dtype) {
    case DType::kC64:
      return DType::kF32;
    case DType::kC128:
      return DType::kF64;
    default:
      return dtype;
  }
}

DType PromoteDTypes(DType a, DType b) {
  if (a == b) return a;
  const DType low = std::min(a, b);
  const DType high = std::max(a, b);
  if (low == DType::kU8 && high == DType::kI8) return DType::kI16;
  if (low == DType::kF16 && high == DType::kBF16) return DType::kF32;
  if (high == DType::kC64 && low == DType::kF64) return DType::kC128;
  return high;
}

}  // namespace mica
