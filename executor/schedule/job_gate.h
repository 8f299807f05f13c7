// Lets Jobs of several devices start when those that they wait for have ended.

#ifndef MICA_EXECUTOR_SCHEDULE_JOB_GATE_H_
#define MICA_EXECUTOR_SCHEDULE_JOB_GATE_H_

#include <condition_variable>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "analysis/schedule/job_graph.h"

namespace mica {

// One run's state that its devices share: which Jobs have ended, and whether
// the run goes on. The first failure ends it, later ones are dropped.
//
// Thread-safe. `graph` must outlive it. The mutex is std's: of Abseil's, which
// a system's library brings, ThreadSanitizer knows nothing.
class JobGate {
 public:
  explicit JobGate(const JobGraph& graph)
      : graph_(graph),
        has_ended_(graph.num_jobs(), false),
        num_running_(graph.num_devices()) {}

  // Waits until all inputs of `id` have ended. False if the run has failed.
  bool WaitForInputs(JobId id);
  void MarkEnded(JobId id);
  // Called once by each device, whose Jobs have all ended: waits for the other
  // devices. True for all of them, or for none because the run has failed.
  bool WaitForAll();

  // Ends the run; without effect once all Jobs have ended.
  void Fail(absl::Status error);
  absl::Status status() const;

 private:
  // Requires the mutex.
  bool HaveEnded(absl::Span<const JobId> jobs) const;

  const JobGraph& graph_;
  mutable std::mutex mutex_;  // Of all that follows.
  std::condition_variable changed_;
  std::vector<bool> has_ended_;
  int num_running_;
  absl::Status status_;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_SCHEDULE_JOB_GATE_H_
