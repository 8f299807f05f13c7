// Merges convolutions and batch norms with what follows them.

#ifndef MICA_ANALYSIS_FUSE_FUSE_CONVOLUTION_H_
#define MICA_ANALYSIS_FUSE_FUSE_CONVOLUTION_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which
// - a convolution with the batch norm of its result by running statistics, a
//   sum and an activation is one mica.convolution; the norm is folded into
//   weight and bias by a mica.fold_batch_norm,
// - another batch norm by running statistics with its activation is one
//   mica.scale_channels.
// What is computed in between and read elsewhere stays. Of float32 only.
absl::StatusOr<Program> FuseConvolutions(Program program,
                                         const OpRegistry& ops);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_FUSE_CONVOLUTION_H_
