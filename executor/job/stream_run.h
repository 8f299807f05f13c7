// The order of a Plan's steps on several threads.

#ifndef MICA_EXECUTOR_JOB_STREAM_RUN_H_
#define MICA_EXECUTOR_JOB_STREAM_RUN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "analysis/plan/plan.h"
#include "analysis/streams/stream_plan.h"
#include "executor/job/crew.h"
#include "executor/job/outcome.h"

namespace mica {

// Runs steps as a StreamPlan says: each stream on a thread of its own, in
// order, each wait a flag that the other thread sets. Single-thread.
class StreamRun {
 public:
  // Runs a step on the thread of `stream`.
  using Launch = std::function<absl::Status(StepId step, int stream)>;

  // Kernels get `team_size` of OpenMP's threads.
  StreamRun(const StreamPlan& plan, int team_size);

  // The first error wins, and no further step starts after it. `outcome` may
  // fail meanwhile from elsewhere, which ends the run as well.
  // FailedPrecondition in a forked process.
  absl::Status Run(const Launch& launch, Outcome& outcome);

 private:
  struct Entry {
    StepId step = 0;
    std::vector<StepId> waits;
    bool is_awaited = false;
  };

  void RunStream(int stream, const Launch& launch, Outcome& outcome);

  const int team_size_;
  std::vector<std::vector<Entry>> streams_;
  // The number of the run in which a step ended last.
  std::unique_ptr<std::atomic<uint32_t>[]> ended_;
  uint32_t run_ = 0;
  Crew crew_;  // Last: its threads end first.
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_STREAM_RUN_H_
