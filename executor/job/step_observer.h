// Who is told of each step of a run.

#ifndef MICA_EXECUTOR_JOB_STEP_OBSERVER_H_
#define MICA_EXECUTOR_JOB_STEP_OBSERVER_H_

#include "absl/status/status.h"
#include "analysis/plan/plan.h"

namespace mica {

class Job;

// Tracers, checkers, and tests that want steps to fail. A Job without any runs
// as if there were no such thing.
//
// BeforeStep() and AfterStep() are called on the thread that runs the step, and
// by several threads at once where the Plan has streams or a queue.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // Before each run, when all addresses are set, and after it.
  virtual void BeforeRun(const Job& job) {}
  virtual void AfterRun(const absl::Status& status) {}
  // An error keeps the step from running and is taken for its own; of a step
  // that commits updates, it comes too late and counts for nothing.
  virtual absl::Status BeforeStep(StepId step, int worker) {
    return absl::OkStatus();
  }
  // Before anything that waits for the step starts; only if it succeeded.
  virtual void AfterStep(StepId step, int worker) {}
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_STEP_OBSERVER_H_
