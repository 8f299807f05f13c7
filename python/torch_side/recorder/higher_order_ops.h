// Keeps the recorder out of the way of torch's higher-order operators.

#ifndef MICA_PYTHON_TORCH_SIDE_RECORDER_HIGHER_ORDER_OPS_H_
#define MICA_PYTHON_TORCH_SIDE_RECORDER_HIGHER_ORDER_OPS_H_

#include "absl/status/status.h"

namespace mica {

// These operators (torch.cond, an autograd.Function under vmap) look for their
// kernels in Python, and raise for a dispatch key that they have none on. Makes
// them leave out the recorder's keys, those that exist and those made later.
// Requires the GIL. Unimplemented for a torch that has them otherwise.
absl::Status LetHigherOrderOpsPass();

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_RECORDER_HIGHER_ORDER_OPS_H_
