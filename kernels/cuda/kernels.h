// All kernels that run on a GPU.

#ifndef MICA_KERNELS_CUDA_KERNELS_H_
#define MICA_KERNELS_CUDA_KERNELS_H_

#include <memory>

#include "framework/kernel/kernel_registry.h"
#include "kernels/cuda/target.h"

namespace mica::cuda {

// Kernels for one kind of device. They are written as sources that fit a
// request's sizes and strides, and compiled from then on.
std::unique_ptr<const KernelRegistry> MakeKernels(const Target& target);

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_KERNELS_H_
