// Losses as the elementwise ops and reductions that they are.

#ifndef MICA_ANALYSIS_FUSE_LOSSES_H_
#define MICA_ANALYSIS_FUSE_LOSSES_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which squared errors and their gradients
// are spelt out, to be merged with what is computed around them.
absl::StatusOr<Program> SpellOutLosses(Program program, const OpRegistry& ops);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_LOSSES_H_
