// What the inference of backward operators shares.

#ifndef MICA_OPS_NN_BACKWARD_H_
#define MICA_OPS_NN_BACKWARD_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/op/op_def.h"

namespace mica {

// `types`, but absent where the output mask given for `mask` says so. Fails
// unless the mask has an entry for each.
absl::StatusOr<TensorTypes> MaskedResults(const OpCall& call, int mask,
                                          TensorTypes types);

// InvalidArgument unless the gradient given for `grad` has these dims and this
// dtype, those of the forward's result.
absl::Status CheckGradient(const OpCall& call, int grad,
                           absl::Span<const Dim> dims, DType dtype);

}  // namespace mica

#endif  // MICA_OPS_NN_BACKWARD_H_
