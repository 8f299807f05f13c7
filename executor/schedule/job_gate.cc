#include "executor/schedule/job_gate.h"

#include <utility>

namespace mica {

bool JobGate::HaveEnded(absl::Span<const JobId> jobs) const {
  for (const JobId id : jobs) {
    if (!has_ended_[id]) return false;
  }
  return true;
}

bool JobGate::WaitForInputs(JobId id) {
  absl::MutexLock lock(&mutex_);
  while (status_.ok() && !HaveEnded(graph_.inputs(id))) {
    changed_.Wait(&mutex_);
  }
  return status_.ok();
}

void JobGate::MarkEnded(JobId id) {
  absl::MutexLock lock(&mutex_);
  has_ended_[id] = true;
  changed_.SignalAll();
}

bool JobGate::WaitForAll() {
  absl::MutexLock lock(&mutex_);
  --num_running_;
  changed_.SignalAll();
  while (status_.ok() && num_running_ > 0) changed_.Wait(&mutex_);
  return status_.ok();
}

void JobGate::Fail(absl::Status error) {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok() || num_running_ == 0) return;
  status_ = std::move(error);
  changed_.SignalAll();
}

absl::Status JobGate::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

}  // namespace mica
