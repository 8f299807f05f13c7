// Whether kernels behind branches and loops can be chosen before a run.

#ifndef MICA_ANALYSIS_PASSES_CHECK_TYPES_H_
#define MICA_ANALYSIS_PASSES_CHECK_TYPES_H_

#include "absl/status/status.h"
#include "framework/ir/program.h"

namespace mica {

// InvalidArgument if somebody reads a value that two branches, or a loop's
// start and a round of it, give in different types (dtype, dims, strides), or
// that one of them doesn't give at all: names the value, both types, the ops
// that make it with the user's lines, and who reads it. What nobody reads may
// be anything, so dead ops and results must have been removed.
absl::Status CheckControlFlow(const Program& program);

}  // namespace mica

#endif  // MICA_ANALYSIS_PASSES_CHECK_TYPES_H_
