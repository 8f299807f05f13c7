#include "analysis/precision/precision.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace mica {
namespace {

constexpr absl::string_view kNames[kNumPrecisions] = {
    "", "int8", "int8-weights", "int4-weights"};

}  // namespace

absl::string_view PrecisionName(Precision precision) {
  return kNames[static_cast<int>(precision)];
}

absl::StatusOr<Precision> ParsePrecision(absl::string_view name) {
  std::string known;
  for (int i = 0; i < kNumPrecisions; ++i) {
    if (kNames[i] == name) return static_cast<Precision>(i);
    if (i > 0) absl::StrAppend(&known, i > 1 ? ", " : "", kNames[i]);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("precision: wants one of ", known, ", got \"", name, "\""));
}

}  // namespace mica
