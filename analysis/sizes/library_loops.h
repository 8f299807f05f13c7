// Loops of torch's own code.

#ifndef MICA_ANALYSIS_SIZES_LIBRARY_LOOPS_H_
#define MICA_ANALYSIS_SIZES_LIBRARY_LOOPS_H_

#include "analysis/lower/tape.h"
#include "analysis/sizes/size_facts.h"

namespace mica {

// Adds to a run's facts the loops of recurrent layers over the steps of a
// sequence: these take a tensor apart (aten.unbind) and do the same with each
// part. Only functions that are known to do so are looked at.
void AddLibraryLoops(const Tape& tape, SizeFacts& facts);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_LIBRARY_LOOPS_H_
