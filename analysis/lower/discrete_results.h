// Operators whose results are told apart by more than rounding.

#ifndef MICA_ANALYSIS_LOWER_DISCRETE_RESULTS_H_
#define MICA_ANALYSIS_LOWER_DISCRETE_RESULTS_H_

#include "analysis/lower/tape.h"

namespace mica {

// True if Mica's kernels and ATen's may give results of the call that differ in
// more than the last digits: indices among equal values, signs of zeros, whole
// numbers of a division in low precision. ATen's depend on its algorithms, and
// some on where an element lies in a vector.
bool IsDiscreteInAten(const Tape& tape, const TapeCall& call);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_DISCRETE_RESULTS_H_
