// Whether two runs made the same calls.

#ifndef MICA_ANALYSIS_SIZES_SAME_CALLS_H_
#define MICA_ANALYSIS_SIZES_SAME_CALLS_H_

#include "absl/status/status.h"
#include "analysis/lower/tape.h"

namespace mica {

// Ok if the tapes are the same but for sizes, strides and numbers: calls,
// tensors and what is written, read and returned. FailedPrecondition says in
// what they differ first.
absl::Status CheckSameCalls(const Tape& a, const Tape& b);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_SAME_CALLS_H_
