// Runs Programs by name of feed and fetch.

#ifndef MICA_EXECUTOR_EXECUTOR_H_
#define MICA_EXECUTOR_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/plan/plan.h"
#include "analysis/plan/plan_cache.h"
#include "executor/job/job.h"
#include "executor/prepared_program.h"
#include "executor/run_handle.h"
#include "framework/base/mutex.h"
#include "framework/device/device.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"
#include "framework/tensor/tensor.h"

namespace mica {

// A tensor and the name of the input or variable that it is for.
using NamedViews = std::map<std::string, TensorView>;

// What the Jobs of a Plan shall have.
using MakeJobOptionsFn = std::function<JobOptions(const Plan& plan)>;

// What an Executor keeps, and how much goes on in it at once.
struct ExecutorLimits {
  // Programs, each with fetches and sizes, of which it keeps Plans; with what
  // belongs to them it forgets the one used least recently.
  int max_prepared = 64;
  // Runs at a time; further callers wait for their turn. 0: any number.
  int max_runs = 0;
  // Of the arenas of all Jobs, those that wait for a run included. What doesn't
  // fit beside others waits until they are done. 0: any number.
  int64_t max_arena_bytes = 0;
};

// What an Executor has done, and holds.
struct ExecutorStats {
  int64_t runs = 0;      // That ended well.
  int64_t failures = 0;  // That ended with an error, feeds that don't fit too.
  int64_t run_nanoseconds = 0;   // In Jobs, of all runs together.
  int64_t wait_nanoseconds = 0;  // For a turn or for memory.
  int64_t running = 0;           // Now.
  int64_t prepared = 0;          // Programs that it keeps Plans of.
  int64_t jobs = 0;              // That it holds, running or not,
  int64_t arena_bytes = 0;       // and their arenas.
};

// Runs Programs with feeds and fetches, and keeps what it decided: a Program
// run again with the same fetches and sizes uses the same Plan, packed
// variables and Jobs.
//
// Thread-safe: runs at the same time have Jobs of their own and share all else,
// packed copies of variables too. A run of a Program that updates variables has
// none beside it. The registries must outlive it.
class Executor {
 public:
  // On the host. Unimplemented for another place, which CreateOn() is for.
  // `plans`, of the same registries, are shared with all who use them; null
  // means plans of its own.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      Place place, const OpRegistry& ops, const KernelRegistry& kernels,
      PlanOptions options, std::shared_ptr<PlanCache> plans = nullptr,
      MakeJobOptionsFn make_job_options = nullptr, ExecutorLimits limits = {});
  // On a device, by kernels of its kind. Variables lie there; feeds may lie
  // there or on the host; results lie there (see CopyToHost).
  static std::unique_ptr<Executor> CreateOn(
      std::shared_ptr<Device> device, const OpRegistry& ops,
      const KernelRegistry& kernels, PlanOptions options,
      std::shared_ptr<PlanCache> plans = nullptr);

  // Values of `fetches` (names of values, the "%" left out; empty means what
  // the Program returns), in order. Inputs and variables that the Program
  // updates are written in place. `handle`, if given, can end the run.
  //
  // InvalidArgument for a missing, extra or ill-typed feed, NotFound for a
  // fetch or a variable that there is not; each gives what was wanted and what
  // came. Feeds need not be row-major. Cancelled by the handle.
  // ResourceExhausted for an arena that the limits can never hold.
  //
  // Where sizes depend on data (aten.nonzero), runs the Program in segments:
  // what comes behind is planned once they are known. Not on a device:
  // Unimplemented.
  absl::StatusOr<std::vector<Tensor>> Run(
      const std::shared_ptr<const Program>& program, const NamedViews& feeds,
      const NamedViews& variables, absl::Span<const std::string> fetches,
      RunHandle* handle = nullptr);

  // The Plan that Run() would use. Unimplemented for a Program that runs in
  // segments, which has several.
  absl::StatusOr<std::shared_ptr<const Plan>> PlanFor(
      const std::shared_ptr<const Program>& program, const NamedViews& feeds,
      absl::Span<const std::string> fetches);

  // How many Programs, with fetches and sizes, it keeps Plans of.
  int num_prepared() const;
  ExecutorStats stats() const;

 private:
  // A run: its Job, with the right to run it.
  class Turn;

  Executor(const OpRegistry& ops, PlanOptions options,
           std::shared_ptr<PlanCache> plans, MakeJobOptionsFn make_job_options,
           ExecutorLimits limits)
      : ops_(ops),
        options_(std::move(options)),
        plans_(std::move(plans)),
        make_job_options_(std::move(make_job_options)),
        limits_(limits) {}

  // What Run() uses, used most recently from now on.
  absl::StatusOr<std::shared_ptr<PreparedProgram>> Prepare(
      const std::shared_ptr<const Program>& program, const NamedViews& feeds,
      absl::Span<const std::string> fetches);
  // The same by a key of all that counts.
  absl::StatusOr<std::shared_ptr<PreparedProgram>> PrepareByKey(
      const std::shared_ptr<const Program>& program, const NamedViews& feeds,
      absl::Span<const std::string> fetches);
  std::shared_ptr<PreparedProgram> FindOrAdd(
      const std::string& key, const std::shared_ptr<const Program>& program);
  void Forget(const PreparedProgram& prepared);
  absl::StatusOr<PreparedProgram::Made> MakeOf(
      const Program& program, const NamedViews& feeds,
      absl::Span<const std::string> fetches) const;
  absl::StatusOr<Program> MakeStatic(const Program& program,
                                     const NamedViews& feeds) const;

  absl::StatusOr<std::vector<Tensor>> RunPrepared(
      const std::shared_ptr<const Program>& program, const NamedViews& feeds,
      const NamedViews& variables, absl::Span<const std::string> fetches,
      RunHandle* handle, Turn& turn);
  // Waits for its turn, and for memory if a Job has to be made. An error if it
  // shan't, or can't, begin.
  absl::Status Begin(const std::shared_ptr<PreparedProgram>& prepared,
                     const std::vector<TensorView>& variables,
                     const RunHandle* handle, Turn& turn);
  // Makes room by dropping Jobs that nobody runs; null if there isn't enough.
  // What it gives is to live as long as the arena.
  std::shared_ptr<void> ReserveArena(int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<Tensor>> RunOnHost(const PreparedProgram& prepared,
                                                const NamedViews& feeds,
                                                Job& job,
                                                RunHandle* handle) const;
  absl::StatusOr<std::vector<Tensor>> RunOnDevice(
      const PreparedProgram& prepared, const NamedViews& feeds,
      const JobWithMemory& job, RunHandle* handle) const;
  // A Binding that a new one for `prepared` may share copies with: of the same
  // Program at other sizes if there is one. That is current: its variables lie
  // where they lay, and so count as unchanged. Of another Program they may have
  // come to lie where others were.
  LikeBinding FindLike(const PreparedProgram& prepared) const;

  // The call before: most calls are like it.
  struct LastCall {
    std::shared_ptr<const Program> program;
    std::vector<std::pair<std::string, TensorType>> feeds;
    std::vector<std::string> fetches;
    std::shared_ptr<PreparedProgram> prepared;  // First of `prepared_`.
  };
  bool IsLikeLast(const Program* program, const NamedViews& feeds,
                  absl::Span<const std::string> fetches) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  using PreparedList = std::list<std::shared_ptr<PreparedProgram>>;

  const OpRegistry& ops_;
  std::shared_ptr<Device> device_;  // Null: the host.
  const PlanOptions options_;
  const std::shared_ptr<PlanCache> plans_;
  const MakeJobOptionsFn make_job_options_;  // May be null.
  const ExecutorLimits limits_;

  // Shared by runs that only read variables.
  std::shared_mutex variables_mutex_;
  mutable Mutex mutex_;  // Before those of PreparedPrograms.
  // What was used most recently is first.
  PreparedList prepared_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, PreparedList::iterator> by_key_
      ABSL_GUARDED_BY(mutex_);
  LastCall last_ ABSL_GUARDED_BY(mutex_);
  ExecutorStats stats_ ABSL_GUARDED_BY(mutex_);  // But for these:
  struct Arenas {
    std::atomic<int64_t> jobs = 0;
    std::atomic<int64_t> bytes = 0;
  };
  const std::shared_ptr<Arenas> arenas_ = std::make_shared<Arenas>();
};

}  // namespace mica

#endif  // MICA_EXECUTOR_EXECUTOR_H_
