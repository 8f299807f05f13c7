// Which values of a training step are variables' gradients.

#ifndef MICA_ANALYSIS_SCHEDULE_GRADIENTS_H_
#define MICA_ANALYSIS_SCHEDULE_GRADIENTS_H_

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "framework/ir/program.h"

namespace mica {

// By a gradient's value its variable's, in a Program that tells which ops are
// backward ones (SourceLine): what such an op computes and an update reads is
// the gradient of the variable that it helps to update and that the forward
// pass reads. Empty for a Program without backward ops.
//
// InvalidArgument where a gradient is of no variable or of several, and where
// there are backward ops and no update reads what they compute.
absl::StatusOr<absl::flat_hash_map<ValueId, ValueId>> FindGradients(
    const Program& program);

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_GRADIENTS_H_
