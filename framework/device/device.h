// A device beside the host: memory of its own, and queues of work.

#ifndef MICA_FRAMEWORK_DEVICE_DEVICE_H_
#define MICA_FRAMEWORK_DEVICE_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/device/place.h"
#include "framework/kernel/kernel.h"

namespace mica {

// Of one device; numbers of destroyed ones are given out again.
using StreamId = int32_t;
using EventId = int32_t;

// A kernel to run on a device.
struct DeviceLaunch {
  LaunchFn fn = nullptr;
  const void* state = nullptr;
  absl::Span<void* const> args;  // Copied where they are needed later.
  // Told by Synchronize() if the launch fails: the number of a Plan's step.
  int32_t step = -1;
};

enum class CopyKind : uint8_t { kToDevice, kToHost, kWithin };

// What went wrong on a device, and in which launch, -1 where nobody knows.
struct DeviceError {
  absl::Status status;
  int32_t step = -1;
};

// Work of several streams, recorded once, to be queued as one.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual absl::Status Launch(StreamId stream) = 0;
};

// Streams are queues: work of one runs in order, work of two is ordered by
// events alone. What is queued runs later: an error that only running finds is
// told by Synchronize().
//
// Thread-safe, but for one stream at a time.
class Device {
 public:
  virtual ~Device() = default;
  virtual Place place() const = 0;

  // ResourceExhausted, with the bytes asked and free, if memory is short.
  // Addresses are the device's, aligned to kBufferAlignment; the host reads or
  // writes there by Copy() alone. Zero bytes give a valid address too.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  // Once all work that is queued by then has ended with it.
  virtual void Free(void* data) = 0;

  virtual absl::StatusOr<StreamId> CreateStream() = 0;
  virtual void DestroyStream(StreamId stream) = 0;
  virtual absl::StatusOr<EventId> CreateEvent() = 0;
  virtual void DestroyEvent(EventId event) = 0;

  // Host memory to copy from may change when this returns; host memory to copy
  // to is written when the stream has been synchronised.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes,
                            CopyKind kind, StreamId stream) = 0;
  virtual absl::Status Launch(const DeviceLaunch& launch, StreamId stream) = 0;
  // The event happens when what is queued on `stream` by now has ended.
  virtual absl::Status Record(EventId event, StreamId stream) = 0;
  // What is queued on `stream` from now on waits for the event as it was
  // recorded last.
  virtual absl::Status Wait(StreamId stream, EventId event) = 0;
  // Returns when all work of `stream` has ended: with the first error of the
  // device since the last call.
  virtual DeviceError Synchronize(StreamId stream) = 0;

  // Between the two, what is queued on `stream`, and on streams that wait for
  // it, is recorded and doesn't run. Those must have been waited for by
  // `stream` in the end.
  virtual absl::Status BeginCapture(StreamId stream) = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceGraph>> EndCapture(
      StreamId stream) = 0;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_DEVICE_DEVICE_H_
