// Where the values that live between a Schedule's Jobs lie.

#ifndef MICA_ANALYSIS_SCHEDULE_VALUE_PLAN_H_
#define MICA_ANALYSIS_SCHEDULE_VALUE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/schedule/job_graph.h"
#include "framework/schedule/schedule.h"

namespace mica {

// All of a stage's Jobs of one type: those that run one Program.
struct JobClass {
  JobType type = JobType::kForward;
  int stage = 0;
  friend bool operator==(const JobClass&, const JobClass&) = default;
};

// "backward(1)": how errors name a class of Jobs.
std::string Describe(const JobClass& jobs);

// What each Job of one class leaves to Jobs of its micro-batch, a reducing one
// to updates, an update to nobody but the caller.
struct ScheduleValue {
  std::string name;
  int64_t bytes = 0;
  JobClass producer;
  // Those that the Schedule hasn't got for a micro-batch don't count.
  std::vector<JobClass> readers;
};

// What a stage's forward pass keeps for its backward pass, one value of so
// many bytes a stage.
std::vector<ScheduleValue> ActivationsOf(
    absl::Span<const int64_t> bytes_of_stage);

// Of the values that a device's Jobs make.
struct DeviceMemory {
  int64_t peak_values = 0;  // That are live at a time, at most.
  int64_t peak_bytes = 0;   // Of the live set that is largest.
  int64_t arena_bytes = 0;  // That offsets lie in.
};

// The Schedule owns the values that live between its Jobs, one for each
// micro-batch. A value lies on the device that makes it. Its bytes serve
// another value when all of its readers, on whatever device, are known to have
// ended, by the Schedule alone: a run has nothing to count, and no Job can
// overwrite what a later one reads.
//
// Immutable and thread-safe.
class ValuePlan {
 public:
  // InvalidArgument, naming the value, if its size is negative, no Job makes
  // it, an update reads one of a micro-batch, or a Job reads it that doesn't
  // wait for it.
  static absl::StatusOr<ValuePlan> Build(
      const JobGraph& graph, absl::Span<const ScheduleValue> values);

  // In the arena of the device that makes values[value], aligned as buffers
  // are, or -1 if the Schedule doesn't make it for that micro-batch. What is
  // made for all micro-batches counts as the first one's.
  int64_t offset(int value, int micro_batch) const {
    const Place& place = places_[value];
    const int64_t block =
        block_offsets_[static_cast<size_t>(place.block) * num_micro_batches_ +
                       micro_batch];
    return block < 0 ? -1 : block + place.offset;
  }
  absl::Span<const DeviceMemory> devices() const { return devices_; }

 private:
  friend class ValuePlanner;
  ValuePlan() = default;

  // Values that the same Jobs make and read are a block.
  struct Place {
    int block = 0;
    int64_t offset = 0;  // Within it.
  };

  int num_micro_batches_ = 0;
  std::vector<Place> places_;           // By value.
  std::vector<int64_t> block_offsets_;  // By block and micro-batch.
  std::vector<DeviceMemory> devices_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_VALUE_PLAN_H_
