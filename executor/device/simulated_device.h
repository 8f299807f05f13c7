// A device made of threads, to try on any machine what holds for all devices.

#ifndef MICA_EXECUTOR_DEVICE_SIMULATED_DEVICE_H_
#define MICA_EXECUTOR_DEVICE_SIMULATED_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/device/device.h"

namespace mica {

struct SimulatedDeviceOptions {
  int32_t index = 0;
  int64_t memory_bytes = int64_t{16} << 30;
  // Each thing queued waits between 0 and so long before it runs, by random
  // numbers from the seed.
  int64_t most_delay_microseconds = 20;
  uint64_t seed = 1;
};

// Runs the host's kernels on one thread a stream. Its memory has addresses that
// the host can't touch: reading or writing there is a segmentation fault; the
// streams' threads have the same bytes elsewhere. ResourceExhausted if the
// system gives no such memory.
absl::StatusOr<std::shared_ptr<Device>> MakeSimulatedDevice(
    const SimulatedDeviceOptions& options = {});

}  // namespace mica

#endif  // MICA_EXECUTOR_DEVICE_SIMULATED_DEVICE_H_
