// Loops that no Python code told of.

#ifndef MICA_ANALYSIS_SIZES_ADDED_LOOPS_H_
#define MICA_ANALYSIS_SIZES_ADDED_LOOPS_H_

#include <vector>

#include "analysis/sizes/size_facts.h"

namespace mica {

// Puts loops among those of a run's facts, in order; what refers to loops by
// their places goes with them. What `loops` say of others (Loop::like) is by
// the places that those had.
void AddLoops(std::vector<SizeFacts::Loop> loops, SizeFacts& facts);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_ADDED_LOOPS_H_
