// Puts functions where they are called.

#ifndef MICA_ANALYSIS_FUNCTIONS_INLINE_CALLS_H_
#define MICA_ANALYSIS_FUNCTIONS_INLINE_CALLS_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning without calls: each is the ops of its function,
// and a copy of a result that would have gaps or overlaps. Calls in branches
// and loops stay.
absl::StatusOr<Program> InlineCalls(Program program, const OpRegistry& ops);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUNCTIONS_INLINE_CALLS_H_
