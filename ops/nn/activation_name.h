#ifndef MICA_OPS_NN_ACTIVATION_NAME_H_
#define MICA_OPS_NN_ACTIVATION_NAME_H_

#include "absl/status/status.h"
#include "framework/op/op_def.h"

namespace mica {

// InvalidArgument unless the string given for `param` names an activation
// that fused convolutions and scalings have.
absl::Status CheckActivation(const OpCall& call, int param);

}  // namespace mica

#endif  // MICA_OPS_NN_ACTIVATION_NAME_H_
