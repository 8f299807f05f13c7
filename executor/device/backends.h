// The devices of this machine, by place.

#ifndef MICA_EXECUTOR_DEVICE_BACKENDS_H_
#define MICA_EXECUTOR_DEVICE_BACKENDS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "framework/device/device.h"
#include "framework/kernel/kernel_registry.h"

namespace mica {

// Where Programs run, and by which kernels.
struct Backend {
  std::shared_ptr<Device> device;  // Null: the host.
  std::shared_ptr<const KernelRegistry> kernels;
};

// One for each place, kept until the process ends. Unavailable for a device
// that the machine doesn't have, or whose libraries it lacks, which it names.
// Thread-safe.
absl::StatusOr<Backend> BackendOf(const Place& place);

}  // namespace mica

#endif  // MICA_EXECUTOR_DEVICE_BACKENDS_H_
