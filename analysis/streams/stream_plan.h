// On which stream each step runs, and what waits for what.

#ifndef MICA_ANALYSIS_STREAMS_STREAM_PLAN_H_
#define MICA_ANALYSIS_STREAMS_STREAM_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analysis/streams/hazards.h"

namespace mica {

// Step `waiter` starts when step `signal`, of another stream, has ended.
struct Wait {
  int32_t signal = 0;
  int32_t waiter = 0;
  friend bool operator==(const Wait&, const Wait&) = default;
};

// Steps of one stream run one after the other, in launch order.
struct StreamPlan {
  int32_t num_streams = 1;
  std::vector<int32_t> streams;  // By step.
  std::vector<Wait> waits;       // By waiter, then by signal.
  double makespan = 0;           // By the costs given, an endless host ahead.
  // Steps that some step of another stream waits for.
  int32_t num_events() const;
};

struct StreamOptions {
  int32_t num_streams = 1;
  // What a wait costs beside the time until the signal, in the costs' unit.
  double wait_cost = 0;
  // Steps that must be on stream 0; empty: none.
  std::vector<bool> is_on_first;
};

// Gives each step, in launch order, the stream on which it ends first by the
// costs, of equals the one of what it waits for longest. Waits are the fewest
// that order all that `graph` asks for: FindWaits().
//
// Requires one cost for each step, and at least one stream.
StreamPlan PlanStreams(const StepGraph& graph, absl::Span<const double> costs,
                       const StreamOptions& options);

// The edges of `graph` between streams that neither the order on the streams
// nor other edges imply: the transitive reduction. No set of waits that orders
// all is without one of them.
std::vector<Wait> FindWaits(const StepGraph& graph,
                            absl::Span<const int32_t> streams,
                            int32_t num_streams);

}  // namespace mica

#endif  // MICA_ANALYSIS_STREAMS_STREAM_PLAN_H_
