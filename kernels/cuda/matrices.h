// Arrays as the matrices that cuBLASLt takes.

#ifndef MICA_KERNELS_CUDA_MATRICES_H_
#define MICA_KERNELS_CUDA_MATRICES_H_

#include <optional>
#include <string>

#include "kernels/cuda/calls.h"
#include "kernels/reference/strided.h"

namespace mica::cuda {

// Fills in the product of `a` and `b`, [rows, inner] and [inner, columns], or
// batches of them, into `out`. A result that lies by rows is computed as the
// transposed of the other way round. Returns what doesn't fit, if anything.
std::optional<std::string> SetMatrices(const Lane& a, const Lane& b,
                                       const Lane& out, ProductCall& call);

// [rows, columns] of an array whose first axes are numbered as one; nothing if
// they have no common stride.
std::optional<Lane> AsMatrix(const Lane& lane);

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_MATRICES_H_
