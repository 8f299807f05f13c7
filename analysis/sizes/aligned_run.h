// Runs that went through their loops in other numbers of rounds.

#ifndef MICA_ANALYSIS_SIZES_ALIGNED_RUN_H_
#define MICA_ANALYSIS_SIZES_ALIGNED_RUN_H_

#include <vector>

#include "absl/status/statusor.h"
#include "analysis/lower/tape.h"
#include "analysis/sizes/rounds.h"

namespace mica {

struct AlignedRun {
  // Makes the calls that the other run made, with the numbers and tensors of
  // its own; in rounds that it didn't make, those of its last one.
  Tape tape;
  // By own tensor: the other run's.
  std::vector<TapeTensorId> tensors;
};

// What run `own` did, as it compares with a run `like` of no fewer rounds of
// each loop. Fails where one did what the other didn't.
absl::StatusOr<AlignedRun> AlignRun(const Tape& own, const Rounds& of_own,
                                    const Tape& like, const Rounds& of_like);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_ALIGNED_RUN_H_
