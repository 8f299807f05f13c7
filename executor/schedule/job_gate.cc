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
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [&] { return !status_.ok() || HaveEnded(graph_.inputs(id)); });
  return status_.ok();
}

void JobGate::MarkEnded(JobId id) {
  const std::lock_guard lock(mutex_);
  has_ended_[id] = true;
  changed_.notify_all();
}

bool JobGate::WaitForAll() {
  std::unique_lock lock(mutex_);
  --num_running_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !status_.ok() || num_running_ == 0; });
  return status_.ok();
}

void JobGate::Fail(absl::Status error) {
  const std::lock_guard lock(mutex_);
  if (!status_.ok() || num_running_ == 0) return;
  status_ = std::move(error);
  changed_.notify_all();
}

absl::Status JobGate::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace mica
