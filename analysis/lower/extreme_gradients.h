// Gradients of the largest or smallest number of a tensor, as torch has them.

#ifndef MICA_ANALYSIS_LOWER_EXTREME_GRADIENTS_H_
#define MICA_ANALYSIS_LOWER_EXTREME_GRADIENTS_H_

#include "analysis/lower/tape.h"

namespace mica {

// The gradient of x.max() goes to all elements that equal it. torch reads on
// the host whether the number is a NaN, which equals none, and if it is gives
// the gradient to all NaNs. Where a backward pass that comes later
// (TapeCall::later_part) does so, it is made to find both kinds of elements
// without a read: a later run has no way but the recorded one.
void FindExtremesWithoutReads(Tape& tape);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_EXTREME_GRADIENTS_H_
