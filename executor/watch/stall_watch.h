// Tells when a run hangs, and on what.

#ifndef MICA_EXECUTOR_WATCH_STALL_WATCH_H_
#define MICA_EXECUTOR_WATCH_STALL_WATCH_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "analysis/plan/plan.h"
#include "executor/job/job.h"
#include "executor/job/step_observer.h"

namespace mica {

struct StallWatchOptions {
  // A run in which no step has started or ended for so long is reported, once
  // until one does.
  absl::Duration patience = absl::Seconds(10);
  // Gets the report, on a thread of the watch; null: the log, as an error.
  std::function<void(const std::string&)> report;
};

// Watches one Job's runs from a thread of its own. The report names the steps
// that run, on which stream or worker, and of those that wait the first ones
// and what each waits for.
class StallWatch : public StepObserver {
 public:
  StallWatch(const Plan& plan, StallWatchOptions options);
  ~StallWatch() override;

  void BeforeRun(const Job& job) override;
  void AfterRun(const absl::Status& status) override;
  absl::Status BeforeStep(StepId step, int worker) override;
  void AfterStep(StepId step, int worker) override;

  // The report as of now. Requires a run under way.
  std::string Describe() const;

 private:
  static constexpr int32_t kWaits = -1, kEnded = -2;  // Else its worker.
  void Watch();

  const StallWatchOptions options_;
  const StepId num_compute_;
  std::vector<std::vector<StepId>> before_;  // What each step waits for.
  std::unique_ptr<std::atomic<int32_t>[]> states_;
  std::atomic<int64_t> num_events_ = 0;
  std::mutex mutex_;  // Of the following two.
  const Job* job_ = nullptr;
  bool is_over_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_WATCH_STALL_WATCH_H_
