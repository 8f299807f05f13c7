// Runs Programs by name of feed and fetch.

#ifndef MICA_EXECUTOR_EXECUTOR_H_
#define MICA_EXECUTOR_EXECUTOR_H_

#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analysis/plan/plan.h"
#include "analysis/plan/plan_cache.h"
#include "executor/job/job.h"
#include "framework/device/device.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"
#include "framework/tensor/tensor.h"

namespace mica {

// A tensor and the name of the input or variable that it is for.
using NamedViews = std::map<std::string, TensorView>;

class SegmentRun;

// What the Jobs of a Plan shall have.
using MakeJobOptionsFn = JobOptions (*)(const Plan& plan);

// Runs Programs with feeds and fetches, and keeps what it decided: a Program
// run again with the same fetches and sizes uses the same Plan and Job. Of more
// than kMaxPrepared it forgets, with arenas and packed copies, what it used
// least recently.
//
// Thread-compatible. The registries must outlive it.
class Executor {
 public:
  static constexpr int kMaxPrepared = 64;

  // On the host. Unimplemented for another place, which CreateOn() is for.
  // `plans`, of the same registries, are shared with all who use them; null
  // means plans of its own.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      Place place, const OpRegistry& ops, const KernelRegistry& kernels,
      PlanOptions options, std::shared_ptr<PlanCache> plans = nullptr,
      MakeJobOptionsFn make_job_options = nullptr);
  // On a device, by kernels of its kind. Variables lie there; feeds may lie
  // there or on the host; results lie there (see CopyToHost).
  static std::unique_ptr<Executor> CreateOn(
      std::shared_ptr<Device> device, const OpRegistry& ops,
      const KernelRegistry& kernels, PlanOptions options,
      std::shared_ptr<PlanCache> plans = nullptr);

  // Values of `fetches` (names of values, the "%" left out; empty means what
  // the Program returns), in order. Inputs and variables that the Program
  // updates are written in place.
  //
  // InvalidArgument for a missing, extra or ill-typed feed, NotFound for a
  // fetch or a variable that there is not; each gives what was wanted and what
  // came. Feeds need not be row-major.
  //
  // Where sizes depend on data (aten.nonzero), runs the Program in segments:
  // what comes behind is planned once they are known. Not on a device:
  // Unimplemented.
  absl::StatusOr<std::vector<Tensor>> Run(
      const std::shared_ptr<const Program>& program, const NamedViews& feeds,
      const NamedViews& variables, absl::Span<const std::string> fetches);

  // The Plan that Run() would use. Unimplemented for a Program that runs in
  // segments, which has several.
  absl::StatusOr<std::shared_ptr<const Plan>> PlanFor(
      const std::shared_ptr<const Program>& program, const NamedViews& feeds,
      absl::Span<const std::string> fetches);

  // How many Programs, with fetches and sizes, it keeps Plans of.
  int num_prepared() const { return static_cast<int>(prepared_.size()); }

 private:
  // What is kept of one Program, its fetches and its feeds' types. Jobs are
  // made anew when a variable moves, since frozen ones are packed.
  struct Prepared {
    std::string key;
    std::shared_ptr<const Program> source;
    std::shared_ptr<const Program> fixed;  // With sizes and fetches.
    std::shared_ptr<const Plan> plan;
    std::vector<TensorView> variables;
    // On a device: what feeds are copied to, and results from, so that the
    // Job's addresses stay as they are.
    std::vector<Tensor> inputs, outputs;
    std::unique_ptr<Job> job;
    std::shared_ptr<SegmentRun> segments;  // Instead of a Plan and a Job.
  };

  Executor(const OpRegistry& ops, PlanOptions options,
           std::shared_ptr<PlanCache> plans, MakeJobOptionsFn make_job_options)
      : ops_(ops),
        options_(std::move(options)),
        plans_(std::move(plans)),
        make_job_options_(make_job_options) {}
  // These leave what they give at the front of prepared_.
  absl::StatusOr<Prepared*> Prepare(
      const std::shared_ptr<const Program>& program, const NamedViews& feeds,
      absl::Span<const std::string> fetches);
  absl::StatusOr<Prepared*> PrepareAnew(
      const std::shared_ptr<const Program>& program, const NamedViews& feeds,
      absl::Span<const std::string> fetches);
  // The Job over `variables`: the last one, if none of them has moved.
  absl::StatusOr<Job*> Bind(Prepared& prepared,
                            const NamedViews& variables) const;
  // Gives the Job memory of the device for its inputs and outputs.
  absl::Status PlaceOnDevice(Prepared& prepared) const;
  absl::StatusOr<std::vector<Tensor>> RunOnDevice(Prepared& prepared,
                                                  const NamedViews& feeds);
  absl::StatusOr<Program> MakeStatic(const Program& program,
                                     const NamedViews& feeds) const;

  // The call before: most calls are like it. It used prepared_.front().
  struct LastCall {
    std::shared_ptr<const Program> program;
    std::vector<std::pair<std::string, TensorType>> feeds;
    std::vector<std::string> fetches;
  };
  bool IsLikeLast(const Program* program, const NamedViews& feeds,
                  absl::Span<const std::string> fetches) const;

  const OpRegistry& ops_;
  std::shared_ptr<Device> device_;  // Null: the host.
  PlanOptions options_;
  std::shared_ptr<PlanCache> plans_;
  const MakeJobOptionsFn make_job_options_;  // May be null.
  std::list<Prepared> prepared_;  // What was used most recently is first.
  absl::flat_hash_map<std::string, std::list<Prepared>::iterator> by_key_;
  LastCall last_;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_EXECUTOR_H_
