#include "analysis/schedule/simulate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {

double ScheduleCosts::Of(JobType type, int stage) const {
  const StageCost& cost = stages[stage];
  switch (type) {
    case JobType::kForward:
      return cost.forward;
    case JobType::kBackward:
      return cost.backward_input + cost.backward_weight;
    case JobType::kBackwardInput:
      return cost.backward_input;
    case JobType::kBackwardWeight:
      return cost.backward_weight;
    case JobType::kReduce:
      return 0;  // Next to the others.
    case JobType::kUpdate:
      return cost.update;
  }
  return 0;
}

ScheduleCosts DivideCosts(const DeviceCost& cost, int num_devices,
                          int num_stages) {
  const double part = static_cast<double>(num_devices) / num_stages;
  const StageCost stage = {.forward = cost.jobs.forward * part,
                           .backward_input = cost.jobs.backward_input * part,
                           .backward_weight = cost.jobs.backward_weight * part,
                           .update = cost.jobs.update * part};
  return {.stages = std::vector<StageCost>(num_stages, stage),
          .send = cost.send};
}

absl::Status CheckCosts(const ScheduleCosts& costs, int num_stages) {
  if (static_cast<int>(costs.stages.size()) != num_stages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wants costs of ", num_stages, " stages, got ", costs.stages.size()));
  }
  const auto is_bad = [](double cost) {
    return !std::isfinite(cost) || cost < 0;
  };
  if (is_bad(costs.send)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sending: a cost can't be ", costs.send));
  }
  for (int stage = 0; stage < num_stages; ++stage) {
    for (JobType type : kJobTypes) {
      const double cost = costs.Of(type, stage);
      if (!is_bad(cost)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "stage ", stage, ", ", ToString(type), ": a cost can't be ", cost));
    }
  }
  return absl::OkStatus();
}

Timeline MakeTimeline(const JobGraph& graph, std::vector<JobSpan> spans) {
  Timeline timeline = {.spans = std::move(spans)};
  double total = 0;
  for (int device = 0; device < graph.num_devices(); ++device) {
    double busy = 0;
    for (JobId id = graph.begin(device); id < graph.end(device); ++id) {
      const JobSpan& span = timeline.spans[id];
      busy += span.end - span.start;
      timeline.makespan = std::max(timeline.makespan, span.end);
    }
    timeline.busy.push_back(busy);
    total += busy;
  }
  if (timeline.makespan > 0) {
    timeline.bubble = 1 - total / (graph.num_devices() * timeline.makespan);
  }
  return timeline;
}

absl::StatusOr<Timeline> Simulate(const JobGraph& graph,
                                  const ScheduleCosts& costs) {
  MICA_RETURN_IF_ERROR(CheckCosts(costs, graph.num_stages()));
  std::vector<JobSpan> spans(graph.num_jobs());
  for (const JobId id : graph.order()) {
    const int device = graph.device(id);
    double start = id == graph.begin(device) ? 0 : spans[id - 1].end;
    for (const JobId input : graph.inputs(id)) {
      const double sent = graph.device(input) == device ? 0 : costs.send;
      start = std::max(start, spans[input].end + sent);
    }
    const ScheduledJob& job = graph.job(id);
    spans[id] = {.start = start, .end = start + costs.Of(job.type, job.stage)};
  }
  return MakeTimeline(graph, std::move(spans));
}

}  // namespace mica
