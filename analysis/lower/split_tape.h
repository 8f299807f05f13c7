// A tape in two: a run, and the backward pass that comes later.

#ifndef MICA_ANALYSIS_LOWER_SPLIT_TAPE_H_
#define MICA_ANALYSIS_LOWER_SPLIT_TAPE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "analysis/lower/tape.h"

namespace mica {

// Drops the calls in `dead` and renumbers what points at calls.
void DropCalls(Tape& tape, const absl::flat_hash_set<int32_t>& dead);

struct SplitTape {
  // A value that the later part reads and the first one has.
  struct Kept {
    bool is_result = false;  // Else an input.
    int32_t index = 0;       // In first.results or first.inputs.
  };

  // All inputs and states; its results, then those of `kept` that aren't, and
  // so its numbers.
  Tape first;
  // Inputs: the gradients of the results, then `kept`. States: those it reads.
  Tape later;
  std::vector<Kept> kept;
  std::vector<int32_t> states;  // Of `later`, by its number in first.states.
  // Numbers that vary, inputs of `later`: of each its index in
  // first.host_results.
  std::vector<int32_t> numbers;
};

// `tape` has its results, of which the last `num_gradients` are the backward
// pass's, and its inputs, of which the last `num_roots` are the gradients of
// results. Calls say by TapeCall::is_later which part they are of.
//
// Unimplemented if the later part writes what it doesn't make, or reads a
// number on the host.
absl::StatusOr<SplitTape> SplitAtBackward(const Tape& tape, int num_roots,
                                          int num_gradients);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_SPLIT_TAPE_H_
