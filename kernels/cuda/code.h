// A kernel from its source to a function that can be launched.

#ifndef MICA_KERNELS_CUDA_CODE_H_
#define MICA_KERNELS_CUDA_CODE_H_

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/target.h"

namespace mica::cuda {

class CudaDevice;

// What every source calls the function that it is for.
inline constexpr const char* kEntry = "kernel";

// Thread-safe.
class Code {
 public:
  // Compiles on a thread of its own, from now on; equal sources for one target
  // share one.
  static std::shared_ptr<const Code> Of(const Target& target,
                                        std::string source);
  Code(const Target& target, std::string source);

  const std::string& source() const { return source_; }
  // What the driver loads, once it is there.
  const absl::StatusOr<std::string>& machine_code() const {
    return machine_code_.get();
  }
  // Loaded at the first call for a device, which must not be while a graph is
  // captured.
  absl::StatusOr<Function> On(const CudaDevice& device) const;

 private:
  static constexpr int kMostDevices = 64;

  const std::string source_;
  const std::shared_future<absl::StatusOr<std::string>> machine_code_;
  mutable Mutex mutex_;  // Of loading.
  mutable std::array<std::atomic<Function>, kMostDevices> functions_ = {};
};

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_CODE_H_
