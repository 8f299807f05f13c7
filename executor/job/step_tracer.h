// Notes when steps run.

#ifndef MICA_EXECUTOR_JOB_STEP_TRACER_H_
#define MICA_EXECUTOR_JOB_STEP_TRACER_H_

#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "executor/job/step_observer.h"
#include "executor/job/step_time.h"

namespace mica {

// Of one run: each step's entry is written by the thread that runs it.
class StepTracer : public StepObserver {
 public:
  explicit StepTracer(const Plan& plan) : times_(plan.steps().size()) {}

  absl::Time start() const { return start_; }
  // By step.
  const std::vector<StepTime>& times() const { return times_; }

  void BeforeRun(const Job&) override { start_ = absl::Now(); }
  absl::Status BeforeStep(StepId step, int worker) override {
    times_[step] = {.step = step, .stream = worker, .start_us = now_us()};
    return absl::OkStatus();
  }
  void AfterStep(StepId step, int) override { times_[step].end_us = now_us(); }

 private:
  double now_us() const {
    return absl::ToDoubleMicroseconds(absl::Now() - start_);
  }

  absl::Time start_;
  std::vector<StepTime> times_;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_STEP_TRACER_H_
