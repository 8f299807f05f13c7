// Runs drawn for chrome://tracing and Perfetto.

#ifndef MICA_TOOLS_TRACE_H_
#define MICA_TOOLS_TRACE_H_

#include <string>

#include "absl/types/span.h"
#include "analysis/plan/plan.h"
#include "executor/job/job.h"

namespace mica {

// One slice a step, on a track for each stream, with its kernel, the user's
// line and the bytes that it may touch; in the trace event format, as JSON.
std::string ToChromeTrace(const Plan& plan, absl::Span<const StepTime> times);

}  // namespace mica

#endif  // MICA_TOOLS_TRACE_H_
