// One pass over a Plan.

#ifndef MICA_EXECUTOR_JOB_JOB_H_
#define MICA_EXECUTOR_JOB_JOB_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/binding/binding.h"
#include "executor/job/device_run.h"
#include "executor/job/expectation.h"
#include "executor/job/helpers.h"
#include "executor/job/outcome.h"
#include "executor/job/queue_run.h"
#include "executor/job/step_observer.h"
#include "executor/job/stream_run.h"
#include "executor/job/undo.h"
#include "executor/trace/run_trace.h"
#include "framework/kernel/kernel.h"
#include "framework/tensor/tensor.h"

namespace mica {

struct JobOptions {
  // Who takes steps of the Plan's queue beside the caller; null: threads of the
  // Job's own.
  std::shared_ptr<Helpers> helpers;
  // Asked between steps; its error ends the run, before Commit().
  Interrupt interrupt;
  // Told of each step; of none on a device.
  std::vector<std::shared_ptr<StepObserver>> observers;
  // On a device, a run whose addresses are those of the last one is queued as
  // one graph.
  bool graphs = true;
};

// A Binding with an arena and a flat list of launches, run any number of
// times. Jobs share their Binding and nothing that they write.
//
// Where the Plan has several streams, each runs on a thread of the Job's own,
// the first on the caller's; where it has a queue, helpers take steps from it
// too. Where the Binding is a device's, so are the arena and all addresses, and
// the steps run on the device's streams while the caller waits.
//
// Single-thread but for Cancel(); overlap by running two Jobs. Addresses given
// must stay valid until the run has ended. After an error the Job can be used
// again.
class Job {
 public:
  // ResourceExhausted if there is no memory for the arena. Unimplemented on a
  // device for a step that runs bodies, and for observers.
  static absl::StatusOr<std::unique_ptr<Job>> Create(
      std::shared_ptr<const Binding> binding, JobOptions options = {});

  // Where an input's, a variable's, an output's first element lies. Types are
  // the caller's to check (CheckFed); an output's is Plan::output_type(). Cheap
  // if the address is the one that it has. An output's memory is its own, lies
  // at a multiple of kBufferAlignment if it has as many bytes, and holds
  // anything until the run has ended.
  void SetInput(int index, void* data) { Set(inputs_[index], data); }
  void SetVariable(int index, void* data) { Set(variables_[index], data); }
  void SetOutput(int index, void* data) { Set(outputs_[index], data); }

  // From now on a run in which an output begins with other bytes fails with
  // Aborted, once that output is written: what comes behind it isn't computed.
  // Without effect on a device, and for an output that no step writes.
  void Expect(int output, std::string bytes);
  // The output for which the last run failed so; -1 if none.
  int unexpected_output() const { return unexpected_.load(); }

  // Runs all ops; outputs are complete then, inputs and variables untouched but
  // for the parts of them in Plan::undo(): Commit() or Discard() is to follow.
  // After an error all of them are as they were.
  // Requires all addresses. An error names the op and the user's line; of
  // several at once it is the first. FailedPrecondition in a process that was
  // forked since the Job was made, if other threads would have to take part:
  // streams, or OpenMP's.
  // `is_cancelled`, if given, is looked at once the run can be cancelled: who
  // sets it, then calls Cancel(), has ended this run, however early it came.
  absl::Status Compute(const std::atomic<bool>* is_cancelled = nullptr);
  // Writes the updates that Compute() found.
  absl::Status Commit();
  // Makes inputs and variables what they were before Compute().
  absl::Status Discard();
  // Compute() and Commit().
  absl::Status Run(const std::atomic<bool>* is_cancelled = nullptr);

  // Makes the run that is under way end with Cancelled before its next step;
  // without effect on later ones, or once all but Commit() is done. Any thread.
  void Cancel();

  const Binding& binding() const { return *binding_; }
  const Plan& plan() const { return binding_->plan(); }
  // Who runs its steps on a device; null on the host.
  const DeviceRun* device_run() const { return device_.get(); }
  // What a step launches; requires all addresses.
  DeviceLaunch LaunchOf(StepId id) const;
  void* arena() const { return arena_.data(); }
  void* output(int index) const { return outputs_[index].data; }
  // "step 3, aten.mm (model.py:7)".
  std::string NameOf(StepId id) const;

 private:
  // A launch with nothing left to decide.
  struct Launch {
    LaunchFn fn = nullptr;
    const void* state = nullptr;
    void* const* args = nullptr;
  };
  // All places of the argument table that count from one address.
  struct Anchor {
    struct Use {
      void** arg;
      int64_t offset;
    };
    void* data = nullptr;
    std::vector<Use> uses;
    // Whether that is another address.
    bool Set(void* new_data) {
      if (new_data == data) return false;
      data = new_data;
      for (const Use& use : uses) {
        *use.arg = static_cast<char*>(new_data) + use.offset;
      }
      return true;
    }
  };

  // Gives the trace, if there is one, what happens while this lives.
  class Traced;

  Job() = default;
  void Set(Anchor& anchor, void* data) {
    if (anchor.Set(data)) ++addresses_;
  }
  absl::Status MakeDeviceRun(const JobOptions& options);
  void FillArgs();
  absl::Status CheckProcess() const;
  // The error that a launch left in `context`.
  absl::Status TakeError(StepId id, LaunchContext& context) const;
  absl::Status LaunchStep(StepId id, LaunchContext& context);
  absl::Status RunStep(StepId id, int worker);
  // Forgets how the last run ended; an error if this one shan't begin.
  absl::Status Begin(const std::atomic<bool>* is_cancelled);
  absl::Status RunOnDevice(DeviceRun::Part part,
                           const std::atomic<bool>* is_cancelled);
  void MakeUndo();
  // Runs what Compute() does on this thread, in launch order.
  absl::Status RunInOrder();

  std::shared_ptr<const Binding> binding_;
  Buffer arena_;
  std::vector<void*> args_;
  std::vector<Launch> launches_;
  std::vector<std::unique_ptr<KernelInstance>> instances_;
  std::vector<Anchor> inputs_;
  std::vector<Anchor> variables_;
  std::vector<Anchor> outputs_;
  uint64_t addresses_ = 1;               // Grows when one of them changes.
  std::vector<LaunchContext> contexts_;  // By stream, or worker.
  std::vector<std::shared_ptr<StepObserver>> observers_;
  std::vector<bool> is_atens_;  // By step; empty: no matter.
  bool is_special_ = false;     // Some of the two must be looked at.
  bool may_fail_ = true;        // Whatever runs before the commits.
  int32_t generation_ = 0;      // Of forks.
  std::vector<std::unique_ptr<Expectation>> expectations_;
  std::atomic<int> unexpected_ = -1;
  std::vector<std::unique_ptr<KeptPart>> kept_;  // As many as Plan::undo().
  std::vector<Launch> undo_;
  Outcome outcome_;
  std::unique_ptr<StreamRun> streams_;  // Null if there is only one.
  std::unique_ptr<QueueRun> queue_;     // Null if there is none.
  std::unique_ptr<DeviceRun> device_;   // Null on the host.
  std::shared_ptr<RunTrace> trace_;     // Null until a run is traced.
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_JOB_H_
