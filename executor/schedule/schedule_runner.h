// Runs a Schedule on devices that are threads of this machine.

#ifndef MICA_EXECUTOR_SCHEDULE_SCHEDULE_RUNNER_H_
#define MICA_EXECUTOR_SCHEDULE_SCHEDULE_RUNNER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/schedule/pipeline_plan.h"
#include "analysis/schedule/simulate.h"
#include "executor/executor.h"
#include "executor/job/job.h"
#include "executor/schedule/job_gate.h"
#include "framework/tensor/tensor.h"

namespace mica {

struct ScheduleRunnerOptions {
  // The CPU that a device's thread stays on, by device; empty for any.
  std::vector<int> cpus;
  // If set, each Job runs in a call of this, on its device's thread: it calls
  // `run` once, and its error is the Job's.
  std::function<absl::Status(const ScheduledJob& job,
                             absl::FunctionRef<absl::Status()> run)>
      around_job;
};

// Joins a PipelinePlan to one set of variables and runs it any number of
// times: a thread a device, which goes through the device's Jobs in their order
// and waits for nothing but the Jobs whose values they read.
//
// All variables are updated at the end of a run, when every Job of every
// device has succeeded, or none is. Until then Jobs see the values of before,
// but for what forward and backward Jobs write themselves (running
// statistics), which they see from one micro-batch to the next.
//
// Single-thread but for Cancel(). The variables' memory must outlive it.
class ScheduleRunner {
 public:
  // NotFound for a variable that there is not, InvalidArgument for one of
  // another type, or for CPUs that aren't one a device; ResourceExhausted if
  // there is no memory.
  static absl::StatusOr<std::unique_ptr<ScheduleRunner>> Create(
      std::shared_ptr<const PipelinePlan> plan, const NamedViews& variables,
      const ScheduleRunnerOptions& options);

  // Values of the plan's fetches, by micro-batch; they are the caller's. What
  // is of all micro-batches comes with each.
  // `feeds` has one entry a micro-batch, `update_feeds` is for the updates.
  //
  // InvalidArgument, before anything runs, for a missing, extra or ill-typed
  // feed; Cancelled after Cancel(); else the first Job's error, with the Job
  // and its device. After an error it can be used again.
  absl::StatusOr<std::vector<std::vector<Tensor>>> Run(
      absl::Span<const NamedViews> feeds, const NamedViews& update_feeds);

  // Ends the run that is under way, if there is one, after the Jobs that are
  // running; without effect once they all have ended.
  void Cancel();

  // When the Jobs of the last run ran, in microseconds from its start.
  Timeline timeline() const;
  const PipelinePlan& plan() const { return *plan_; }

 private:
  // A variable that runs write: the Schedule's own sum, or a copy that goes to
  // `target` at the end.
  struct Written {
    Tensor working;
    TensorView target;  // Without data for a sum.
  };
  using Results = std::vector<std::vector<Tensor>>;
  // What one run needs besides.
  struct RunState;

  explicit ScheduleRunner(std::shared_ptr<const PipelinePlan> plan)
      : plan_(std::move(plan)) {}
  absl::Status BindVariables(const NamedViews& variables);
  absl::Status AllocateArenas();
  absl::StatusOr<Results> AllocateResults() const;
  // Gives every micro-batch what was made for all of them.
  void ShareResults(Results& results) const;
  void StartVariables();
  void RecordTimeline(const RunState& state) const;
  void RunDevice(int device, const RunState& state);
  absl::Status RunJob(JobId id, const RunState& state);
  void* AddressOf(int value, int micro_batch, const RunState& state) const;

  const std::shared_ptr<const PipelinePlan> plan_;
  ScheduleRunnerOptions options_;
  std::vector<Written> written_;
  std::vector<std::unique_ptr<Job>> jobs_;  // By stage of the plan.
  std::vector<Buffer> arenas_;              // By device.
  std::vector<int> fetch_of_value_;         // -1 for none.
  std::vector<JobSpan> spans_;   // By JobId; a device writes its own.
  std::vector<int32_t> tracks_;  // Its row in the trace, by device.

  std::mutex mutex_;         // Of `gate_`.
  JobGate* gate_ = nullptr;  // Of the run under way.
};

}  // namespace mica

#endif  // MICA_EXECUTOR_SCHEDULE_SCHEDULE_RUNNER_H_
