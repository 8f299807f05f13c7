// Finds the cells of recurrent layers in what they are written out as.

#ifndef MICA_ANALYSIS_FUSE_RECURRENT_H_
#define MICA_ANALYSIS_FUSE_RECURRENT_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which a GRU's gates and its new state are
// one mica.gru_cell. Wants reads forwarded (ForwardWrites).
absl::StatusOr<Program> FuseRecurrent(Program program, const OpRegistry& ops,
                                      const KernelRegistry& kernels);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_RECURRENT_H_
