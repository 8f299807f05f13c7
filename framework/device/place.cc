#include "framework/device/place.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace mica {

absl::string_view DeviceKindName(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kSimulated:
      return "simulated";
  }
  return "";
}

std::string Place::ToString() const {
  return absl::StrCat(DeviceKindName(kind), ":", index);
}

absl::StatusOr<Place> ParsePlace(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  Place place;
  const bool has_index = parts.size() == 2;
  if (parts.size() <= 2 &&
      (!has_index ||
       (absl::SimpleAtoi(parts[1], &place.index) && place.index >= 0))) {
    for (DeviceKind kind :
         {DeviceKind::kCpu, DeviceKind::kCuda, DeviceKind::kSimulated}) {
      if (parts[0] == DeviceKindName(kind)) {
        place.kind = kind;
        return place;
      }
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "place: wants cpu, cuda or simulated, and perhaps :0 or another number, "
      "got \"",
      text, "\""));
}

}  // namespace mica
