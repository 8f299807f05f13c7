// Merges convolutions and batch norms with what follows them.

#ifndef MICA_ANALYSIS_FUSE_FUSE_CONVOLUTION_H_
#define MICA_ANALYSIS_FUSE_FUSE_CONVOLUTION_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which
// - a convolution with the batch norm of its result by running statistics, a
//   sum and an activation is one mica.convolution; the norm is folded into
//   weight and bias by a mica.fold_batch_norm,
// - another batch norm by running statistics with its activation is one
//   mica.scale_channels,
// - of a convolution of volumes the norm is folded, and what follows stays.
// What is computed in between and read elsewhere stays. Of float32; of 16 bits
// - a convolution with its norm is one mica.scaled_convolution where a kernel
//   for that is, which rounds once: weights of so few bits aren't scaled,
// - what follows a norm without a convolution only if nothing is rounded less
//   often.
absl::StatusOr<Program> FuseConvolutions(Program program, const OpRegistry& ops,
                                         const KernelRegistry& kernels);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_FUSE_CONVOLUTION_H_
