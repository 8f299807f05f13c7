// A Program for given fetches and sizes, with all that runs of it share.

#ifndef MICA_EXECUTOR_PREPARED_PROGRAM_H_
#define MICA_EXECUTOR_PREPARED_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/plan/plan.h"
#include "executor/binding/binding.h"
#include "executor/job/job.h"
#include "framework/base/mutex.h"
#include "framework/device/device.h"
#include "framework/ir/program.h"
#include "framework/tensor/tensor.h"

namespace mica {

class SegmentRun;

// A Job and what lives as long as it.
struct JobWithMemory {
  std::shared_ptr<void> arena_share;  // Of what the arenas of all may take.
  std::unique_ptr<Job> job;
  // On a device: what its feeds are copied to and its results from, so that its
  // addresses stay as they are.
  std::vector<Tensor> inputs, outputs;
};

// What a Binding may share copies with; see Binding::Create().
struct LikeBinding {
  std::shared_ptr<const Binding> binding;  // May be null.
  bool is_current = false;
};

// A Plan, a Binding of it to the variables that runs came with last, and the
// Jobs of that Binding that nobody runs at the moment. Thread-safe.
class PreparedProgram {
 public:
  // What a Program is made into: one of the two.
  struct Made {
    std::shared_ptr<const Program> fixed;  // With sizes and fetches.
    std::shared_ptr<const Plan> plan;
    std::shared_ptr<SegmentRun> segments;
  };
  using MakeFn = std::function<absl::StatusOr<Made>()>;

  // `source` is kept alive: what is known by its address stays true.
  PreparedProgram(std::string key, std::shared_ptr<const Program> source)
      : key_(std::move(key)), source_(std::move(source)) {}

  const std::string& key() const { return key_; }
  const std::shared_ptr<const Program>& source() const { return source_; }

  // Calls `make` unless an earlier call of it succeeded; of several threads one
  // does, the others wait.
  absl::Status Make(const MakeFn& make);
  // Requires that Make() has succeeded.
  const Made& made() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return made_; }

  // A Job over `variables`, in the order of the Program's, that nobody runs;
  // one without a Job if there is none.
  JobWithMemory TakeFree(absl::Span<const TensorView> variables);
  // A new one. Variables that have moved are bound anew, since frozen ones are
  // packed. `like` gives what Binding::Create() calls so.
  absl::StatusOr<JobWithMemory> MakeJob(
      const std::vector<TensorView>& variables,
      const std::shared_ptr<Device>& device, const JobOptions& options,
      absl::FunctionRef<LikeBinding()> like);
  // Keeps a Job for a later run, or drops it if the variables have moved since.
  void GiveBack(JobWithMemory job);
  // Drops the Jobs that nobody runs.
  void DropFree();

  // Null before the first Job is made.
  std::shared_ptr<const Binding> binding() const;

 private:
  absl::StatusOr<std::shared_ptr<const Binding>> Bind(
      const std::vector<TensorView>& variables,
      const std::shared_ptr<Device>& device,
      absl::FunctionRef<LikeBinding()> like);
  // Lets go of the packed copies, before others are made.
  void Unbind();
  bool IsBoundTo(absl::Span<const TensorView> variables) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string key_;
  const std::shared_ptr<const Program> source_;

  Mutex making_;  // Held while something is made; before `mutex_`.
  mutable Mutex mutex_;
  bool is_made_ ABSL_GUARDED_BY(mutex_) = false;
  Made made_ ABSL_GUARDED_BY(mutex_);  // Constant once it is made.
  std::vector<TensorView> variables_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Binding> binding_ ABSL_GUARDED_BY(mutex_);
  std::vector<JobWithMemory> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mica

#endif  // MICA_EXECUTOR_PREPARED_PROGRAM_H_
