// When each Job of a Schedule would run.

#ifndef MICA_ANALYSIS_SCHEDULE_SIMULATE_H_
#define MICA_ANALYSIS_SCHEDULE_SIMULATE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/schedule/job_graph.h"
#include "framework/schedule/schedule.h"

namespace mica {

// Of one stage and one micro-batch, in any one unit of time.
struct StageCost {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;  // A whole backward takes both.
  double update = 0;
};

struct ScheduleCosts {
  std::vector<StageCost> stages;
  double send = 0;  // From a Job's end until another device has its value.

  double Of(JobType type, int stage) const;
};

// What one micro-batch costs a device, all its stages together.
struct DeviceCost {
  StageCost jobs;
  double send = 0;
};

// The same cost for each stage: its part of its device's.
ScheduleCosts DivideCosts(const DeviceCost& cost, int num_devices,
                          int num_stages);

// InvalidArgument unless there is a cost for each stage, and none is negative,
// infinite or NaN.
absl::Status CheckCosts(const ScheduleCosts& costs, int num_stages);

struct JobSpan {
  double start = 0;
  double end = 0;
};

// When Jobs ran, or would run.
struct Timeline {
  std::vector<JobSpan> spans;  // By JobId.
  std::vector<double> busy;    // By device: the sum of its Jobs' times.
  double makespan = 0;         // From the first start to the last end.
  // The share of all devices' time until the makespan in which they idle.
  double bubble = 0;
};

// Each Job starts as soon as its device is free and its inputs are there.
// InvalidArgument as CheckCosts().
absl::StatusOr<Timeline> Simulate(const JobGraph& graph,
                                  const ScheduleCosts& costs);

// Fills in what follows from `spans`.
Timeline MakeTimeline(const JobGraph& graph, std::vector<JobSpan> spans);

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_SIMULATE_H_
