// Whether two runs made the same calls.

#ifndef MICA_ANALYSIS_SIZES_SAME_CALLS_H_
#define MICA_ANALYSIS_SIZES_SAME_CALLS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "analysis/lower/tape.h"

namespace mica {

// Numbers of a run that are sizes, by index (SizeFacts), in another one.
using NumbersThatAreSizes = std::vector<std::pair<double, int32_t>>;

// Ok if the tapes are the same but for sizes, strides and numbers: calls,
// tensors and what is written, read and returned. FailedPrecondition says in
// what they differ first. Of numbers that are sizes in `b` adds to `sizes` what
// `a` has in their places.
absl::Status CheckSameCalls(const Tape& a, const Tape& b,
                            NumbersThatAreSizes* sizes);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_SAME_CALLS_H_
