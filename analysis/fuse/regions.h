// Merges elementwise ops into regions.

#ifndef MICA_ANALYSIS_FUSE_REGIONS_H_
#define MICA_ANALYSIS_FUSE_REGIONS_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which elementwise ops that read each other,
// on dense tensors of one floating-point type and numbers, are one
// mica.elementwise. It stands where the last of them stood; none of what they
// compute is read before that. Results that only they read are gone.
absl::StatusOr<Program> MergeElementwise(Program program,
                                         const OpRegistry& ops);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_REGIONS_H_
