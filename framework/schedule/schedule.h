// What runs where and in which order, as data.

#ifndef MICA_FRAMEWORK_SCHEDULE_SCHEDULE_H_
#define MICA_FRAMEWORK_SCHEDULE_SCHEDULE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mica {

enum class JobType : uint8_t {
  kForward,
  kBackward,        // Gradients of a stage's inputs and of its variables.
  kBackwardInput,   // Those of its inputs alone, which the stage before awaits.
  kBackwardWeight,  // Those of its variables alone, which no other stage does.
  // What updates of all stages read of one stage's gradients, as a norm over
  // all of them does, after all of its micro-batches.
  kReduce,
  kUpdate,  // Of a stage's variables, after all of its micro-batches.
};

inline constexpr std::array kJobTypes = {
    JobType::kForward,        JobType::kBackward, JobType::kBackwardInput,
    JobType::kBackwardWeight, JobType::kReduce,   JobType::kUpdate};

// True for what a stage runs once, for all micro-batches.
constexpr bool IsForAllMicroBatches(JobType type) {
  return type == JobType::kReduce || type == JobType::kUpdate;
}

// "forward", "backward_input".
absl::string_view ToString(JobType type);
std::optional<JobType> ParseJobType(absl::string_view text);

// One Job of a Schedule: what is run is told by its type and stage, on what by
// its micro-batch.
struct ScheduledJob {
  // The micro-batch of a Job that is for all of them.
  static constexpr int kAllMicroBatches = -1;

  JobType type = JobType::kForward;
  int stage = 0;
  int micro_batch = 0;

  // "forward(0,3)": stage 0, micro-batch 3; "update(0)".
  std::string ToString() const;
  friend bool operator==(const ScheduledJob&, const ScheduledJob&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ScheduledJob& job) {
    return H::combine(std::move(h), job.type, job.stage, job.micro_batch);
  }
};

// A Schedule is the order in which each device runs its Jobs. Stages are cut
// from one step in the order of its forward pass; a device may hold several of
// them, and runs one Job at a time.
//
// Whether it is complete and can end is for JobGraph::Build() to say.
struct Schedule {
  std::string name;
  int num_micro_batches = 0;
  // The device of each stage, and hence of all of the stage's Jobs.
  std::vector<int> device_of_stage;
  // In order, by device.
  std::vector<std::vector<ScheduledJob>> devices;

  int num_stages() const { return static_cast<int>(device_of_stage.size()); }
  int num_devices() const { return static_cast<int>(devices.size()); }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

//   schedule @gpipe(micro_batches=2, stages=[0,0]) {
//     device {
//       forward(0,0)
//       …
//       update(0)
//     }
//   }
//
// `stages` gives the device of each stage; a Job is its type, stage and
// micro-batch. ParseSchedule() reads it back to an equal Schedule.
std::string ToText(const Schedule& schedule);

// InvalidArgument names line and column, what was wanted and what came. Takes
// any Jobs of known types; safe on any bytes.
absl::StatusOr<Schedule> ParseSchedule(absl::string_view text);

}  // namespace mica

#endif  // MICA_FRAMEWORK_SCHEDULE_SCHEDULE_H_
