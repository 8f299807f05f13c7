// Where work runs and bytes lie.

#ifndef MICA_FRAMEWORK_DEVICE_DEVICE_H_
#define MICA_FRAMEWORK_DEVICE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mica {

enum class DeviceKind : uint8_t { kCpu, kCuda, kSimulated };

// "cpu", "cuda", "simulated".
absl::string_view DeviceKindName(DeviceKind kind);

// One device of a kind: "cpu:0".
struct Place {
  DeviceKind kind = DeviceKind::kCpu;
  int32_t index = 0;
  std::string ToString() const;
  friend bool operator==(const Place&, const Place&) = default;
};

// "cpu" or "cpu:0"; InvalidArgument otherwise.
absl::StatusOr<Place> ParsePlace(absl::string_view text);

using StreamId = int32_t;
using EventId = int32_t;

// A device with ordered queues of work (streams) and marks in them (events).
// Work of one stream runs in order; work of two only by Wait() on an event.
//
// Thread-safe but for one stream at a time.
class Device {
 public:
  virtual ~Device() = default;
  virtual Place place() const = 0;

  // ResourceExhausted, with the bytes asked and free, if memory is short.
  // Addresses are aligned to kBufferAlignment.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* data) = 0;
  virtual absl::Status CopyFromHost(void* to, const void* from, int64_t bytes,
                                    StreamId stream) = 0;
  virtual absl::Status CopyToHost(void* to, const void* from, int64_t bytes,
                                  StreamId stream) = 0;

  virtual int num_streams() const = 0;
  // Queues host-described work; devices with own kernels launch those instead.
  virtual absl::Status Enqueue(StreamId stream,
                               std::function<absl::Status()> work) = 0;
  virtual absl::StatusOr<EventId> CreateEvent() = 0;
  virtual absl::Status Record(EventId event, StreamId stream) = 0;
  virtual absl::Status Wait(StreamId stream, EventId event) = 0;
  // Returns when all work of `stream` is done; its first error.
  virtual absl::Status Synchronize(StreamId stream) = 0;
};

// The host: one stream that runs work at once, in the caller's thread.
std::unique_ptr<Device> MakeCpuDevice();

}  // namespace mica

#endif  // MICA_FRAMEWORK_DEVICE_DEVICE_H_
