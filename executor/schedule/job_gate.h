// Lets Jobs of several devices start when those that they wait for have ended.

#ifndef MICA_EXECUTOR_SCHEDULE_JOB_GATE_H_
#define MICA_EXECUTOR_SCHEDULE_JOB_GATE_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "analysis/schedule/job_graph.h"

namespace mica {

// One run's state that its devices share: which Jobs have ended, and whether
// the run goes on. The first failure ends it, later ones are dropped.
//
// Thread-safe. `graph` must outlive it.
class JobGate {
 public:
  explicit JobGate(const JobGraph& graph)
      : graph_(graph),
        has_ended_(graph.num_jobs(), false),
        num_running_(graph.num_devices()) {}

  // Waits until all inputs of `id` have ended. False if the run has failed.
  bool WaitForInputs(JobId id) ABSL_LOCKS_EXCLUDED(mutex_);
  void MarkEnded(JobId id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called once by each device, whose Jobs have all ended: waits for the other
  // devices. True for all of them, or for none because the run has failed.
  bool WaitForAll() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the run; without effect once all Jobs have ended.
  void Fail(absl::Status error) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool HaveEnded(absl::Span<const JobId> jobs) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const JobGraph& graph_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<bool> has_ended_ ABSL_GUARDED_BY(mutex_);
  int num_running_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mica

#endif  // MICA_EXECUTOR_SCHEDULE_JOB_GATE_H_
