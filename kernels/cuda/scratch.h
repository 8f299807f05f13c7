// Room in a launch's scratch memory.

#ifndef MICA_KERNELS_CUDA_SCRATCH_H_
#define MICA_KERNELS_CUDA_SCRATCH_H_

#include <cstdint>

#include "framework/kernel/kernel.h"
#include "kernels/cuda/calls.h"

namespace mica::cuda {

// Gives out one piece behind the other.
class Scratch {
 public:
  explicit Scratch(const KernelRequest& request)
      : arg_(static_cast<int>(request.operands.size() +
                              request.results.size())) {}
  Ref Take(int64_t bytes) {
    const Ref at{.arg = arg_, .offset = bytes_};
    bytes_ += (bytes + kPiece - 1) / kPiece * kPiece;
    return at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t kPiece = 256;
  const int arg_;
  int64_t bytes_ = 0;
};

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_SCRATCH_H_
