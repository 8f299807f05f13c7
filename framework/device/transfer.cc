#include "framework/device/transfer.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "framework/base/status.h"

namespace mica {

namespace {

// Waits for what `queue` queues on a stream of its own.
absl::Status RunAlone(Device& device,
                      absl::FunctionRef<absl::Status(StreamId stream)> queue) {
  MICA_ASSIGN_OR_RETURN(const StreamId stream, device.CreateStream());
  const absl::Cleanup destroy = [&] { device.DestroyStream(stream); };
  MICA_RETURN_IF_ERROR(queue(stream));
  return device.Synchronize(stream).status;
}

}  // namespace

absl::Status CopyBytes(void* to, const void* from, int64_t bytes, CopyKind kind,
                       Device& device) {
  return RunAlone(device, [&](StreamId stream) {
    return device.Copy(to, from, bytes, kind, stream);
  });
}

absl::Status LaunchAlone(const DeviceLaunch& launch, Device& device) {
  return RunAlone(
      device, [&](StreamId stream) { return device.Launch(launch, stream); });
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
