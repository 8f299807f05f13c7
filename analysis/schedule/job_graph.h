// What each Job of a Schedule waits for.

#ifndef MICA_ANALYSIS_SCHEDULE_JOB_GRAPH_H_
#define MICA_ANALYSIS_SCHEDULE_JOB_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/schedule/schedule.h"

namespace mica {

// A Job's index in a JobGraph: one device after another, each in its order.
using JobId = int32_t;

// The Jobs of a Schedule that is complete and that ends, with the Jobs whose
// values each of them reads. Besides, a Job waits for those before it on its
// device; a value that another device reads is sent at once and kept until it
// is read, so that sending never waits.
//
// Immutable and thread-safe; a copy of the Schedule's Jobs.
class JobGraph {
 public:
  // InvalidArgument, naming the Job and the device, for
  // - a stage, micro-batch or device that there is not, or a Job that isn't on
  //   its stage's device;
  // - a Job that occurs twice or is missing: each stage runs each micro-batch
  //   forward and, unless no stage does, backward, whole or in both parts;
  //   each stage updates, unless none does, and reduces before, unless none
  //   does;
  // - a deadlock, told as the cycle of Jobs that wait for each other.
  static absl::StatusOr<JobGraph> Build(const Schedule& schedule);

  int num_jobs() const { return static_cast<int>(jobs_.size()); }
  int num_devices() const { return static_cast<int>(begins_.size()) - 1; }
  const ScheduledJob& job(JobId id) const { return jobs_[id]; }
  int device(JobId id) const { return device_of_stage_[jobs_[id].stage]; }
  // A device's Jobs are [begin(device), end(device)).
  JobId begin(int device) const { return begins_[device]; }
  JobId end(int device) const { return begins_[device + 1]; }
  absl::Span<const int> device_of_stage() const { return device_of_stage_; }
  int num_stages() const { return static_cast<int>(device_of_stage_.size()); }
  int num_micro_batches() const { return num_micro_batches_; }
  bool HasJob(JobType type) const;

  // Jobs whose values `id` reads, on any device.
  absl::Span<const JobId> inputs(JobId id) const { return inputs_[id]; }
  // All Jobs, each behind those that it waits for.
  absl::Span<const JobId> order() const { return order_; }
  // -1 if there is no such Job.
  JobId Find(const ScheduledJob& job) const;

 private:
  JobGraph() = default;
  absl::Status AddJobs(const Schedule& schedule);
  absl::Status CheckComplete() const;
  absl::Status CheckBackward(int stage, int micro_batch) const;
  void Connect();
  absl::Status Sort();
  // The Jobs that wait for each other, given how many each device has run.
  absl::Status DescribeDeadlock(absl::Span<const JobId> next) const;
  // The backward Job that gives a stage's gradients to the stage before, and
  // the one that gives its variables'.
  JobId BackwardInput(int stage, int micro_batch) const;
  JobId BackwardWeight(int stage, int micro_batch) const;

  int num_micro_batches_ = 0;
  std::vector<int> device_of_stage_;
  std::vector<JobId> begins_;
  std::vector<ScheduledJob> jobs_;
  std::vector<std::vector<JobId>> inputs_;
  std::vector<JobId> order_;
  absl::flat_hash_map<ScheduledJob, JobId> ids_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_JOB_GRAPH_H_
