// Where bytes lie and work runs.

#ifndef MICA_FRAMEWORK_DEVICE_PLACE_H_
#define MICA_FRAMEWORK_DEVICE_PLACE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mica {

enum class DeviceKind : uint8_t { kCpu, kCuda, kSimulated };

// "cpu", "cuda", "simulated".
absl::string_view DeviceKindName(DeviceKind kind);

// One device of a kind: "cuda:0". The host is cpu:0.
struct Place {
  DeviceKind kind = DeviceKind::kCpu;
  int32_t index = 0;
  bool is_host() const { return kind == DeviceKind::kCpu; }
  std::string ToString() const;
  friend bool operator==(const Place&, const Place&) = default;
};

// "cuda", which is "cuda:0", or with a number; InvalidArgument otherwise.
absl::StatusOr<Place> ParsePlace(absl::string_view text);

}  // namespace mica

#endif  // MICA_FRAMEWORK_DEVICE_PLACE_H_
