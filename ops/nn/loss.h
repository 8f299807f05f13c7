// What the inference of losses and of their gradients shares.

#ifndef MICA_OPS_NN_LOSS_H_
#define MICA_OPS_NN_LOSS_H_

#include "absl/status/status.h"
#include "framework/op/op_def.h"

namespace mica {

// InvalidArgument unless the reduction given for `param` is 0 (none), 1 (mean)
// or 2 (sum).
absl::Status CheckReduction(const OpCall& call, int param);

}  // namespace mica

#endif  // MICA_OPS_NN_LOSS_H_
