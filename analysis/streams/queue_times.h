// When steps would run that workers take from a queue.

#ifndef MICA_ANALYSIS_STREAMS_QUEUE_TIMES_H_
#define MICA_ANALYSIS_STREAMS_QUEUE_TIMES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analysis/streams/hazards.h"
#include "analysis/streams/queue_plan.h"

namespace mica {

struct QueueTimes {
  std::vector<double> start, end;  // By step.
  std::vector<int32_t> order;      // The steps by their start.
  double makespan = 0;
};

// Plays `queue` with workers that take steps as its runs do, by estimated
// costs. A wide step has all workers that find nothing else to do.
QueueTimes SimulateQueue(const QueuePlan& queue, absl::Span<const double> costs,
                         const QueueOptions& options);

}  // namespace mica

#endif  // MICA_ANALYSIS_STREAMS_QUEUE_TIMES_H_
