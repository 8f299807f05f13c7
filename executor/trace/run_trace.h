// What a Job tells the trace.

#ifndef MICA_EXECUTOR_TRACE_RUN_TRACE_H_
#define MICA_EXECUTOR_TRACE_RUN_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "executor/binding/binding.h"
#include "executor/job/step_observer.h"
#include "framework/trace/trace_event.h"

namespace mica {

// Notes when a Job's steps run, and on which threads; then gives the trace a
// span a step, on its thread's row, and the memory in use as counters, by the
// plan's lifetimes. Each step's entry is written by the thread that runs it;
// Begin() and End() are for the thread that runs the Job.
class RunTrace : public StepObserver {
 public:
  // `binding` must outlive it.
  explicit RunTrace(const Binding& binding);

  // Around the steps from `first` to before `end`, in launch order: those that
  // compute, or those that commit.
  void Begin(StepId first, StepId end);
  void End();

  absl::Status BeforeStep(StepId step, int worker) override;
  void AfterStep(StepId step, int worker) override;

 private:
  struct Entry {
    int32_t track = 0;
    int32_t worker = 0;
    int64_t start_ns = -1;  // Before it has begun.
    int64_t end_ns = -1;    // Before it has succeeded.
  };
  // Of bytes in use.
  struct Change {
    int64_t ns = 0;
    int64_t arena_bytes = 0;
    int64_t outside_bytes = 0;
  };

  bool is_within(StepId step) const { return step >= first_ && step < end_; }
  TraceEvent SpanOf(StepId step, int64_t now_ns) const;
  void AddSliceChanges(std::vector<Change>& changes) const;
  void AddOutputChanges(std::vector<Change>& changes) const;
  void AddCounters(std::vector<Change> changes,
                   std::vector<TraceEvent>& events);

  const Binding& binding_;
  const std::string counter_name_;
  int64_t copies_bytes_ = 0;  // That the Binding made.
  // The steps that touch an output's memory.
  std::vector<std::vector<StepId>> steps_of_output_;
  std::vector<Entry> entries_;  // By step.
  StepId first_ = 0, end_ = 0;
  int64_t arena_bytes_ = 0, outside_bytes_ = 0;  // In use.
};

}  // namespace mica

#endif  // MICA_EXECUTOR_TRACE_RUN_TRACE_H_
