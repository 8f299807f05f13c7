#include "executor/device/backends.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "executor/device/simulated_device.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "kernels/all.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/nvrtc.h"

namespace mica {
namespace {

// Kernels that nobody owns.
std::shared_ptr<const KernelRegistry> HostKernels() {
  return {std::shared_ptr<const KernelRegistry>(), &AllKernels()};
}

absl::StatusOr<Backend> OpenCuda(int index) {
  MICA_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::FindDriver());
  MICA_RETURN_IF_ERROR(cuda::FindCompiler());
  MICA_ASSIGN_OR_RETURN(auto device, cuda::CudaDevice::Create(*driver, index));
  std::shared_ptr<const KernelRegistry> kernels =
      cuda::MakeKernels(device->target());
  return Backend{.device = std::move(device), .kernels = std::move(kernels)};
}

absl::StatusOr<Backend> Open(const Place& place) {
  switch (place.kind) {
    case DeviceKind::kCuda:
      return OpenCuda(place.index);
    case DeviceKind::kSimulated: {
      MICA_ASSIGN_OR_RETURN(auto device,
                            MakeSimulatedDevice({.index = place.index}));
      return Backend{.device = std::move(device), .kernels = HostKernels()};
    }
    case DeviceKind::kCpu:
      break;
  }
  return Backend{.kernels = HostKernels()};
}

}  // namespace

absl::StatusOr<Backend> BackendOf(const Place& place) {
  static Mutex mutex;
  static auto& open = *new absl::flat_hash_map<std::string, Backend>;
  const MutexLock lock(&mutex);
  const std::string name = place.ToString();
  if (const auto it = open.find(name); it != open.end()) return it->second;
  MICA_ASSIGN_OR_RETURN(Backend backend, Open(place));
  return open[name] = std::move(backend);
}

}  // namespace mica
