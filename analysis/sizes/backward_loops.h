// What autograd does in rounds, since the program did.

#ifndef MICA_ANALYSIS_SIZES_BACKWARD_LOOPS_H_
#define MICA_ANALYSIS_SIZES_BACKWARD_LOOPS_H_

#include "analysis/lower/tape.h"
#include "analysis/sizes/size_facts.h"

namespace mica {

// Adds to a run's facts the loops of its backward pass (SizeFacts::Loop::like),
// and what they count, where calls take that. There are two kinds.
//
// Autograd goes through what a loop did from the last round on: calls after the
// loop, each of which takes what one round made, and which are alike from one
// round to the next. The first and the last of these rounds mostly do something
// else (there is no gradient yet to be added to; nobody asks for what comes
// before the loop), so that they are beside the loop (Loop::less).
//
// What joined a tensor of each round (torch.stack) is taken apart again: one
// call for each, one after another.
void AddBackwardLoops(const Tape& tape, SizeFacts& facts);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_BACKWARD_LOOPS_H_
