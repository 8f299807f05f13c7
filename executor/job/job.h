// One pass over a Plan.

#ifndef MICA_EXECUTOR_JOB_JOB_H_
#define MICA_EXECUTOR_JOB_JOB_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/binding/binding.h"
#include "executor/job/stream_run.h"
#include "framework/kernel/kernel.h"
#include "framework/tensor/tensor.h"

namespace mica {

// A Binding with an arena and a flat list of launches, run any number of
// times. Jobs share their Binding and nothing that they write.
//
// Where the Plan has several streams, each runs on a thread of the Job's own,
// the first on the caller's.
//
// Single-thread; overlap by running two Jobs. Addresses given must stay valid
// until the run has ended. After an error the Job can be used again.
class Job {
 public:
  // ResourceExhausted if there is no memory for the arena.
  static absl::StatusOr<std::unique_ptr<Job>> Create(
      std::shared_ptr<const Binding> binding);

  // Where an input's, a variable's, an output's first element lies. Types are
  // the caller's to check (CheckFed); an output's is Plan::output_type(). Cheap
  // if the address is the one that it has. An output's memory is its own, lies
  // at a multiple of kBufferAlignment if it has as many bytes, and holds
  // anything until the run has ended.
  void SetInput(int index, void* data) { inputs_[index].Set(data); }
  void SetVariable(int index, void* data) { variables_[index].Set(data); }
  void SetOutput(int index, void* data) { outputs_[index].Set(data); }

  // Runs all ops; outputs are complete then, inputs and variables untouched.
  // Requires all addresses. An error names the op and the user's line.
  absl::Status Compute();
  // Writes the updates that Compute() found.
  absl::Status Commit();
  // Both.
  absl::Status Run();

  // When a step ran, in microseconds from the run's start.
  struct StepTime {
    StepId step = 0;
    int stream = 0;
    double start_us = 0, end_us = 0;
  };
  // As Run(); tells of each step, in launch order.
  absl::StatusOr<std::vector<StepTime>> Trace();

  const Plan& plan() const { return binding_->plan(); }

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
    void Set(void* new_data) {
      if (new_data == data) return;
      data = new_data;
      for (const Use& use : uses) {
        *use.arg = static_cast<char*>(new_data) + use.offset;
      }
    }
  };

  Job() = default;
  void FillArgs();
  absl::Status RunSteps(StepId begin, StepId end);
  absl::Status RunStep(StepId id, int stream);
  absl::Status ErrorOf(StepId id, absl::Status status) const;

  std::shared_ptr<const Binding> binding_;
  Buffer arena_;
  std::vector<void*> args_;
  std::vector<Launch> launches_;
  std::vector<std::unique_ptr<KernelInstance>> instances_;
  std::vector<Anchor> inputs_;
  std::vector<Anchor> variables_;
  std::vector<Anchor> outputs_;
  std::vector<LaunchContext> contexts_;  // By stream.
  std::unique_ptr<StreamRun> streams_;   // Null if there is only one.
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_JOB_H_
