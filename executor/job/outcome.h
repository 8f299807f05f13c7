// How a run on several threads ends.

#ifndef MICA_EXECUTOR_JOB_OUTCOME_H_
#define MICA_EXECUTOR_JOB_OUTCOME_H_

#include <atomic>
#include <mutex>
#include <utility>

#include "absl/status/status.h"

namespace mica {

// The first error of a run; the others are dropped. Thread-safe. The mutex is
// std's: of Abseil's, which a system's library brings, ThreadSanitizer knows
// nothing.
class Outcome {
 public:
  void Reset() {
    if (!has_failed()) return;
    const std::lock_guard lock(mutex_);
    status_ = absl::OkStatus();
    has_failed_.store(false, std::memory_order_release);
  }
  void Fail(absl::Status status) {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return;
    status_ = std::move(status);
    has_failed_.store(true, std::memory_order_release);
  }
  bool has_failed() const {
    return has_failed_.load(std::memory_order_acquire);
  }
  absl::Status status() const {
    if (!has_failed()) return absl::OkStatus();
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  std::atomic<bool> has_failed_ = false;
  mutable std::mutex mutex_;
  absl::Status status_;  // Of the mutex.
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_OUTCOME_H_
