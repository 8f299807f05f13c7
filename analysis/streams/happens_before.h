// Proves that a plan of streams orders every two accesses that must be.

#ifndef MICA_ANALYSIS_STREAMS_HAPPENS_BEFORE_H_
#define MICA_ANALYSIS_STREAMS_HAPPENS_BEFORE_H_

#include "absl/status/status.h"
#include "analysis/streams/hazards.h"
#include "analysis/streams/stream_plan.h"

namespace mica {

// Follows the steps with a vector clock for each stream, joined by the waits
// alone; looks neither at the graph nor at how the waits were found.
//
// Internal for the first race: a read of bytes whose last write isn't known to
// have ended, or a write of bytes that a read or a write isn't known to have
// left, with both steps, their streams and the bytes. InvalidArgument for waits
// that can't be: on a later step, on one of the same stream.
absl::Status CheckHappensBefore(const StepAccesses& accesses,
                                const StreamPlan& plan);

}  // namespace mica

#endif  // MICA_ANALYSIS_STREAMS_HAPPENS_BEFORE_H_
