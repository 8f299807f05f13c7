#include "framework/device/transfer.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "framework/base/status.h"

namespace mica {

absl::Status CopyBytes(void* to, const void* from, int64_t bytes, CopyKind kind,
                       Device& device) {
  MICA_ASSIGN_OR_RETURN(const StreamId stream, device.CreateStream());
  const absl::Cleanup destroy = [&] { device.DestroyStream(stream); };
  MICA_RETURN_IF_ERROR(device.Copy(to, from, bytes, kind, stream));
  return device.Synchronize(stream).status;
}

absl::Status LaunchAlone(const DeviceLaunch& launch, Device& device) {
  MICA_ASSIGN_OR_RETURN(const StreamId stream, device.CreateStream());
  const absl::Cleanup destroy = [&] { device.DestroyStream(stream); };
  MICA_RETURN_IF_ERROR(device.Launch(launch, stream));
  return device.Synchronize(stream).status;
}

absl::StatusOr<Tensor> CopyToDevice(const TensorView& from,
                                    std::shared_ptr<Device> device) {
  MICA_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(from.type, device));
  MICA_RETURN_IF_ERROR(CopyBytes(copy.data(), from.data,
                                 from.type.extent_bytes(), CopyKind::kToDevice,
                                 *device));
  return copy;
}

absl::StatusOr<Tensor> CopyToHost(const TensorView& from, Device& device) {
  MICA_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(from.type));
  MICA_RETURN_IF_ERROR(CopyBytes(copy.data(), from.data,
                                 from.type.extent_bytes(), CopyKind::kToHost,
                                 device));
  return copy;
}

absl::StatusOr<Tensor> CopyToHost(const Tensor& tensor) {
  const std::shared_ptr<Device> device = tensor.device();
  if (device == nullptr) return tensor;
  return CopyToHost(tensor.view(), *device);
}

}  // namespace mica
