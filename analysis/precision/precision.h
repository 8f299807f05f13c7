// In how many bits products with frozen weights compute.

#ifndef MICA_ANALYSIS_PRECISION_PRECISION_H_
#define MICA_ANALYSIS_PRECISION_PRECISION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mica {

enum class Precision : uint8_t {
  kAsWritten,    // The program's own.
  kInt8,         // Weights of int8, and rows that are quantised as they come.
  kInt8Weights,  // Weights of int8, rows of float32.
  kInt4Weights,  // Weights of 4 bits by groups of kInt4Group, the same.
};
inline constexpr int kNumPrecisions = 4;

// Weights of 4 bits that share a scale and an offset.
inline constexpr int64_t kInt4Group = 32;

// "int8-weights"; "" for the program's own.
absl::string_view PrecisionName(Precision precision);
// Inverse of PrecisionName. InvalidArgument, with the names that there are, for
// another one.
absl::StatusOr<Precision> ParsePrecision(absl::string_view name);

}  // namespace mica

#endif  // MICA_ANALYSIS_PRECISION_PRECISION_H_
