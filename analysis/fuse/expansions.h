// Computes with one element what would be computed with copies of it.

#ifndef MICA_ANALYSIS_FUSE_EXPANSIONS_H_
#define MICA_ANALYSIS_FUSE_EXPANSIONS_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which elementwise ops of an expanded tensor
// without dims, as the gradient of a mean is, are ops of that tensor, expanded
// where what reads it wants all dims.
absl::StatusOr<Program> DelayExpansions(Program program, const OpRegistry& ops);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_EXPANSIONS_H_
