// What workers need to take a Plan's steps from a queue.

#ifndef MICA_ANALYSIS_STREAMS_QUEUE_PLAN_H_
#define MICA_ANALYSIS_STREAMS_QUEUE_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analysis/streams/hazards.h"

namespace mica {

// A step may start when all that it waits for have ended; of those that may,
// the one of the lowest rank goes first. Any number of workers, one too, gets
// through.
struct QueuePlan {
  int32_t num_workers = 1;          // 1: there is no queue.
  std::vector<int32_t> num_before;  // By step: how many it waits for.
  std::vector<int32_t> ranks;       // By step, each another one.
  std::vector<bool> is_on_caller;   // By step: not for helpers.

  int32_t num_steps() const { return static_cast<int32_t>(num_before.size()); }
  // The steps that wait for `step`, in launch order.
  absl::Span<const int32_t> after(int32_t step) const {
    const int32_t begin = step == 0 ? 0 : after_ends[step - 1];
    return absl::MakeConstSpan(after_steps)
        .subspan(begin, after_ends[step] - begin);
  }
  std::vector<int32_t> after_steps;
  std::vector<int32_t> after_ends;  // By step.
};

struct QueueOptions {
  int32_t num_workers = 1;
  // What taking a step from the queue costs, in the costs' unit.
  double take_cost = 0;
  // A step that costs more than so much is cut into pieces for all workers.
  double wide_cost = 0;
  // Steps for the caller alone; empty: none.
  std::vector<bool> is_on_caller;
  // Steps that nothing runs beside; empty: none.
  std::vector<bool> is_alone;
};

// Orders what `graph` asks for. A step's rank tells how much work is behind it
// at least: the longest path by `costs`, its own included, those of wide steps
// shared.
QueuePlan PlanQueue(const StepGraph& graph, absl::Span<const double> costs,
                    const QueueOptions& options);

}  // namespace mica

#endif  // MICA_ANALYSIS_STREAMS_QUEUE_PLAN_H_
