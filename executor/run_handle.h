// What others know a run by while it goes on.

#ifndef MICA_EXECUTOR_RUN_HANDLE_H_
#define MICA_EXECUTOR_RUN_HANDLE_H_

#include <atomic>
#include <mutex>

#include "executor/job/job.h"

namespace mica {

// Given to a run, so that another thread can end it. May be given to one run
// after the other, to one at a time. Thread-safe; must outlive the run.
class RunHandle {
 public:
  // Makes the run end with Cancelled before its next step, or before it begins
  // if it waits for its turn; and all later ones with this handle, until
  // Reset(). A run that has done all but write its updates ends as it would.
  void Cancel() {
    is_cancelled_.store(true);
    const std::lock_guard lock(mutex_);
    if (job_ != nullptr) job_->Cancel();
  }
  void Reset() { is_cancelled_.store(false); }
  bool is_cancelled() const { return is_cancelled_.load(); }

 private:
  friend class Executor;
  // Runs the job, which Cancel() ends from now on.
  absl::Status Run(Job& job) {
    SetJob(&job);
    absl::Status status = job.Run(&is_cancelled_);
    SetJob(nullptr);
    return status;
  }
  void SetJob(Job* job) {
    const std::lock_guard lock(mutex_);
    job_ = job;
  }

  std::mutex mutex_;
  Job* job_ = nullptr;  // The one that runs; of the mutex.
  std::atomic<bool> is_cancelled_ = false;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_RUN_HANDLE_H_
