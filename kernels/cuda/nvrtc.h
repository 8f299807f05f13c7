// CUDA's run-time compiler.

#ifndef MICA_KERNELS_CUDA_NVRTC_H_
#define MICA_KERNELS_CUDA_NVRTC_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mica::cuda {

// OK if the compiler was found; else why not.
absl::Status FindCompiler();

// Machine code of `source` for devices of compute capability `arch`, for
// example 90. Unavailable without NVRTC; Internal, with the compiler's log, for
// a source that it refuses, which is a bug of ours. Thread-safe.
absl::StatusOr<std::string> Compile(const std::string& source, int arch);

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_NVRTC_H_
