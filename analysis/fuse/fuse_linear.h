// Merges matrix products and layer norms with what is computed around them.

#ifndef MICA_ANALYSIS_FUSE_FUSE_LINEAR_H_
#define MICA_ANALYSIS_FUSE_FUSE_LINEAR_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which
// - a matrix product with its bias, activation and residual is one
//   mica.linear,
// - a sum and the layer norm of it are one mica.add_layer_norm.
// Fused ops are made only of types that a fast kernel takes them of. What is
// computed in between and read elsewhere stays.
absl::StatusOr<Program> FuseLinear(Program program, const OpRegistry& ops,
                                   const KernelRegistry& kernels);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_FUSE_LINEAR_H_
