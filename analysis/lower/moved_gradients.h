// Gradients of views that begin where a run decides.

#ifndef MICA_ANALYSIS_LOWER_MOVED_GRADIENTS_H_
#define MICA_ANALYSIS_LOWER_MOVED_GRADIENTS_H_

#include "analysis/lower/tape.h"

namespace mica {

// True for the gradient of a select whose index is a number of the run's.
bool SelectsByNumber(const TapeCall& call);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_MOVED_GRADIENTS_H_
