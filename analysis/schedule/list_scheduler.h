// Orders the Jobs of a pipeline by simulating it greedily.

#ifndef MICA_ANALYSIS_SCHEDULE_LIST_SCHEDULER_H_
#define MICA_ANALYSIS_SCHEDULE_LIST_SCHEDULER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/schedule/simulate.h"
#include "framework/schedule/schedule.h"

namespace mica {

// Which forward Job, or which backward Job, goes before another one that could
// run at the same time on the same device.
enum class BatchOrder : uint8_t {
  // By rounds of as many micro-batches as there are devices; in a round, all of
  // them on one of the device's stages, then on the next.
  kRounds,
  kStage,  // The stage nearest to the loss, then the first micro-batch.
  kBatch,  // The first micro-batch, then the stage nearest to the loss.
};

// What tells one kind of pipeline from another.
struct ListPolicy {
  static constexpr int kNoLimit = 1 << 30;

  int num_devices = 1;
  std::vector<int> device_of_stage;
  // Backward passes in two Jobs. The weights' run when nothing else can.
  bool split_backward = false;
  // A Job waits for all that come before it in forward_order, or
  // backward_order, even if it could run.
  bool in_order = false;
  // A device begins its backward passes when all its forward passes are done.
  bool hold_backward = false;
  // Where both could run, a backward pass goes before a forward pass.
  bool backward_first = false;
  // Weights' Jobs wait for another Job that is ready before this share of their
  // time is over.
  double patience = 0;
  BatchOrder forward_order = BatchOrder::kBatch;
  BatchOrder backward_order = BatchOrder::kBatch;
  // By stage: its forward pass has to wait while its device has this many
  // forward passes without the gradients of their inputs, and this many whose
  // values a backward pass is still to read.
  std::vector<int> max_in_flight;
  std::vector<int> max_live;
};

// Always takes the Job that can start first, but for patience. InvalidArgument
// if the limits let no Job run.
absl::StatusOr<Schedule> OrderJobs(const ListPolicy& policy, int micro_batches,
                                   const ScheduleCosts& costs);

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_LIST_SCHEDULER_H_
