// Random numbers of a step that a Schedule runs in pieces, in eager's order.

#ifndef MICA_PYTHON_TORCH_SIDE_OPAQUE_RANDOM_DRAWS_H_
#define MICA_PYTHON_TORCH_SIDE_OPAQUE_RANDOM_DRAWS_H_

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/schedule/pipeline_plan.h"
#include "framework/ir/program.h"
#include "framework/schedule/schedule.h"

namespace mica {

// How many numbers each op of a step takes from torch's generator, and which
// of these ops each class of Jobs runs. Immutable.
struct RandomDraws {
  struct Stage {
    JobClass jobs;
    std::vector<int> ops;  // Indices in `counts`, in the order of running.
  };
  std::vector<int64_t> counts;  // By random op, in the step's order.
  std::vector<Stage> stages;    // Those that have any.
};

// Runs each random op of `program`, which `plan` was cut from, once on zeros
// to count what it takes; torch's generator is as before.
//
// Unimplemented, naming the op, where that isn't a number of its own: in a
// branch or a loop, or where normal numbers are kept for the next op.
absl::StatusOr<RandomDraws> FindRandomDraws(const Program& program,
                                            const PipelinePlan& plan);

// One run of a Schedule, as if its micro-batches were run one after the other,
// each by the whole step: each random op finds torch's generator at the place
// of its turn there, whenever a device comes to it.
//
// Until it is destroyed nobody else may draw from torch's generator. RunJob()
// may be called from several threads.
class RandomRun {
 public:
  // `draws` must outlive it.
  RandomRun(const RandomDraws& draws, int num_micro_batches);
  // Leaves the generator where it was before the run, unless Finish() was
  // called.
  ~RandomRun();
  RandomRun(const RandomRun&) = delete;
  RandomRun& operator=(const RandomRun&) = delete;

  // Calls `run`, which runs the Job on this thread. Internal if it doesn't run
  // its random ops.
  absl::Status RunJob(const ScheduledJob& job,
                      absl::FunctionRef<absl::Status()> run);
  // Leaves the generator behind the last micro-batch.
  void Finish();

 private:
  const RandomDraws& draws_;
  at::mt19937 start_;
  // Where each op starts, by micro-batch and op; at the end, where all end.
  std::vector<at::mt19937> states_;
};

// Calls `draw`, an op that draws from torch's generator; within
// RandomRun::RunJob() from its place in the run. Unimplemented, naming the op,
// if it then takes another number of numbers than the one that was counted.
absl::Status DrawInTurn(const std::string& op, absl::FunctionRef<void()> draw);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_OPAQUE_RANDOM_DRAWS_H_
