// What others know a run by while it goes on.

#ifndef MICA_EXECUTOR_RUN_HANDLE_H_
#define MICA_EXECUTOR_RUN_HANDLE_H_

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "executor/job/job.h"

namespace mica {

// Given to a run, or to several, so that another thread can end them.
// Thread-safe; must outlive the runs.
class RunHandle {
 public:
  // Makes runs that have it end with Cancelled before their next step, or, if
  // they wait for their turn, when that comes; and all later ones until
  // Reset(). A run that has done all but write its updates ends as it would.
  void Cancel() {
    is_cancelled_.store(true);
    const std::lock_guard lock(mutex_);
    for (Job* job : running_) job->Cancel();
  }
  void Reset() { is_cancelled_.store(false); }
  bool is_cancelled() const { return is_cancelled_.load(); }

 private:
  friend class Executor;
  // Runs the job, which Cancel() ends from now on.
  absl::Status Run(Job& job) {
    {
      const std::lock_guard lock(mutex_);
      running_.push_back(&job);
    }
    absl::Status status = job.Run(&is_cancelled_);
    const std::lock_guard lock(mutex_);
    running_.erase(std::find(running_.begin(), running_.end(), &job));
    return status;
  }

  std::mutex mutex_;
  std::vector<Job*> running_;  // Of the mutex.
  std::atomic<bool> is_cancelled_ = false;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_RUN_HANDLE_H_
