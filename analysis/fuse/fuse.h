// Merges neighbouring ops into fused ones.

#ifndef MICA_ANALYSIS_FUSE_FUSE_H_
#define MICA_ANALYSIS_FUSE_FUSE_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which
// - a matrix product with its bias, activation and residual is one
//   mica.linear,
// - a sum and the layer norm of it are one mica.add_layer_norm,
// - what SpellOutLosses(), DelayExpansions(), Simplify() and FuseRecurrent()
//   find is replaced.
// Fused ops are made only of types that a fast kernel takes them of. What is
// computed in between and read elsewhere stays.
absl::StatusOr<Program> Fuse(Program program, const OpRegistry& ops,
                             const KernelRegistry& kernels);

// True if what Fuse() makes of the Program may depend on more of its sizes than
// which are equal, 0 or 1: on a mean's divisor, on offsets into gates, on the
// windows that writes and reads have in common, on where the parts of one
// product begin.
bool FuseReadsSizes(const Program& program);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_FUSE_H_
