// What kernels are made for.

#ifndef MICA_KERNELS_CUDA_TARGET_H_
#define MICA_KERNELS_CUDA_TARGET_H_

#include <string>

#include "absl/status/statusor.h"

namespace mica::cuda {

// A kind of device, and who makes machine code for it.
struct Target {
  int arch = 90;             // Its compute capability, 90 for 9.0.
  int num_processors = 132;  // Its multiprocessors.
  // From source to what the driver loads. Thread-safe.
  absl::StatusOr<std::string> (*compile)(const std::string& source,
                                         int arch) = nullptr;
};

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_TARGET_H_
