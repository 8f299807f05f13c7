// A tape in parts: a run, and the backward pass that comes later.

#ifndef MICA_ANALYSIS_LOWER_SPLIT_TAPE_H_
#define MICA_ANALYSIS_LOWER_SPLIT_TAPE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/lower/tape.h"

namespace mica {

// Drops the calls in `dead` and renumbers what points at calls.
void DropCalls(Tape& tape, const absl::flat_hash_set<int32_t>& dead);

// One part of the backward pass of a tape: what it is given and gives.
struct LaterPart {
  std::vector<int32_t> roots;      // Gradients, by number in Tape::inputs,
  std::vector<int32_t> gradients;  // and those in Tape::results.
};

struct SplitTape {
  // A value that a later part reads and the first one has.
  struct Kept {
    bool is_result = false;  // Else an input.
    int32_t index = 0;       // In first.results or first.inputs.
    friend bool operator==(const Kept&, const Kept&) = default;
  };
  struct Later {
    // Inputs: the part's roots, then `kept`. States: those it reads.
    Tape tape;
    std::vector<Kept> kept;
    std::vector<int32_t> states;  // Of each its number in first.states.
    // Numbers that vary, inputs of `tape`: of each its index in
    // first.host_results.
    std::vector<int32_t> numbers;
  };

  // All inputs and states; its results, then those of `kept` that aren't, and
  // so its numbers.
  Tape first;
  std::vector<Later> later;
};

// `tape` has its own results first, then the gradients that parts of the
// backward pass give, and its arguments first, then the gradients that the
// parts are given. Calls say by TapeCall::later_part which part they are of. No
// part reads what another one makes but by a root.
//
// Unimplemented if a later part writes what it doesn't make, or reads a number
// on the host.
absl::StatusOr<SplitTape> SplitAtBackward(const Tape& tape, int num_args,
                                          int num_results,
                                          absl::Span<const LaterPart> parts);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_SPLIT_TAPE_H_
