// Whether a Program is what a Program has to be.

#ifndef MICA_ANALYSIS_PASSES_VERIFY_H_
#define MICA_ANALYSIS_PASSES_VERIFY_H_

#include "absl/status/status.h"
#include "framework/ir/program.h"

namespace mica {

// Internal, naming the op and the user's line, unless
// - each op reads only values that stand before it, of its own block,
// - each op's arguments are those of its schema, and its results have the
//   dtypes and dims that follow from them (of views also the strides),
// - each value says where it comes from, and that says the same,
// - an input or variable is updated once at most, with a value of its type,
// - branches and loops fit their bodies, and all of this holds of those.
// ProgramBuilder sees to all of it; this finds what a pass, or an edit, broke.
absl::Status Verify(const Program& program);

}  // namespace mica

#endif  // MICA_ANALYSIS_PASSES_VERIFY_H_
