// Tensors on their way between the host and a device.

#ifndef MICA_FRAMEWORK_DEVICE_TRANSFER_H_
#define MICA_FRAMEWORK_DEVICE_TRANSFER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device/device.h"
#include "framework/tensor/tensor.h"

namespace mica {

// All of `bytes` bytes, from where they lie to where they shall; returns when
// they are there.
absl::Status CopyBytes(void* to, const void* from, int64_t bytes, CopyKind kind,
                       Device& device);

// Runs one kernel, and returns when it has ended.
absl::Status LaunchAlone(const DeviceLaunch& launch, Device& device);

// A copy on `device` of a tensor of the host's, its strides kept.
absl::StatusOr<Tensor> CopyToDevice(const TensorView& from,
                                    std::shared_ptr<Device> device);
// A copy on the host, its strides kept, of what lies on `device`.
absl::StatusOr<Tensor> CopyToHost(const TensorView& from, Device& device);
// The tensor itself where it is the host's.
absl::StatusOr<Tensor> CopyToHost(const Tensor& tensor);

}  // namespace mica

#endif  // MICA_FRAMEWORK_DEVICE_TRANSFER_H_
