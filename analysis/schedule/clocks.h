// Which Jobs of a Schedule are known to have ended when another one starts.

#ifndef MICA_ANALYSIS_SCHEDULE_CLOCKS_H_
#define MICA_ANALYSIS_SCHEDULE_CLOCKS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "analysis/schedule/job_graph.h"

namespace mica {

// Vector clocks: for each Job, how far each device has come at least. It
// follows from what the Job waits for alone, not from any times. Immutable.
class Clocks {
 public:
  // ResourceExhausted for Jobs times devices past a billion. `graph` must
  // outlive it.
  static absl::StatusOr<Clocks> Build(const JobGraph& graph);

  // True if `job` has ended whenever `later` starts.
  bool HasEnded(JobId job, JobId later) const {
    const int device = graph_->device(job);
    return job < At(later)[device];
  }
  // The first Job of `device` that starts when `job` has ended for sure, or
  // the end of the device's Jobs.
  JobId FirstAfter(JobId job, int device) const;

 private:
  explicit Clocks(const JobGraph& graph) : graph_(&graph) {}
  // Of a Job, by device: the first Job there that may not have ended.
  const JobId* At(JobId id) const {
    return ends_.data() + static_cast<size_t>(id) * graph_->num_devices();
  }

  const JobGraph* graph_;
  std::vector<JobId> ends_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_CLOCKS_H_
