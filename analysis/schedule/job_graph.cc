#include "analysis/schedule/job_graph.h"

#include <algorithm>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"

namespace mica {
namespace {

std::string On(int device, const ScheduledJob& job) {
  return absl::StrCat("device ", device, ": ", job.ToString());
}

absl::Status Missing(const ScheduledJob& job) {
  return absl::InvalidArgumentError(
      absl::StrCat(job.ToString(), " is missing"));
}

}  // namespace

absl::StatusOr<JobGraph> JobGraph::Build(const Schedule& schedule) {
  JobGraph graph;
  absl::Status status = graph.AddJobs(schedule);
  if (status.ok()) status = graph.CheckComplete();
  if (status.ok()) {
    graph.Connect();
    status = graph.Sort();
  }
  if (status.ok()) return graph;
  return Annotate(status, absl::StrCat("schedule ", schedule.name));
}

JobId JobGraph::Find(const ScheduledJob& job) const {
  const auto it = ids_.find(job);
  return it == ids_.end() ? -1 : it->second;
}

JobId JobGraph::BackwardInput(int stage, int micro_batch) const {
  const JobId whole = Find({JobType::kBackward, stage, micro_batch});
  if (whole >= 0) return whole;
  return Find({JobType::kBackwardInput, stage, micro_batch});
}

JobId JobGraph::BackwardWeight(int stage, int micro_batch) const {
  const JobId whole = Find({JobType::kBackward, stage, micro_batch});
  if (whole >= 0) return whole;
  return Find({JobType::kBackwardWeight, stage, micro_batch});
}

absl::Status JobGraph::AddJobs(const Schedule& schedule) {
  num_micro_batches_ = schedule.num_micro_batches;
  device_of_stage_ = schedule.device_of_stage;
  if (num_stages() == 0 || num_micro_batches_ <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("wants stages and micro-batches, got ", num_stages(),
                     " and ", num_micro_batches_));
  }
  for (int stage = 0; stage < num_stages(); ++stage) {
    const int device = device_of_stage_[stage];
    if (device >= 0 && device < schedule.num_devices()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("stage ", stage, ": is on device ", device, " of ",
                     schedule.num_devices()));
  }
  begins_ = {0};
  for (int device = 0; device < schedule.num_devices(); ++device) {
    for (const ScheduledJob& job : schedule.devices[device]) {
      if (job.stage < 0 || job.stage >= num_stages()) {
        return absl::InvalidArgumentError(absl::StrCat(
            On(device, job), ": there are ", num_stages(), " stages"));
      }
      if (IsForAllMicroBatches(job.type)
              ? job.micro_batch != ScheduledJob::kAllMicroBatches
              : job.micro_batch < 0 || job.micro_batch >= num_micro_batches_) {
        return absl::InvalidArgumentError(
            absl::StrCat(On(device, job), ": there are ", num_micro_batches_,
                         " micro-batches"));
      }
      if (device_of_stage_[job.stage] != device) {
        return absl::InvalidArgumentError(
            absl::StrCat(On(device, job), ": stage ", job.stage,
                         " is on device ", device_of_stage_[job.stage]));
      }
      if (!ids_.try_emplace(job, num_jobs()).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(On(device, job), " occurs twice"));
      }
      jobs_.push_back(job);
    }
    begins_.push_back(num_jobs());
  }
  return absl::OkStatus();
}

absl::Status JobGraph::CheckBackward(int stage, int micro_batch) const {
  const ScheduledJob whole = {JobType::kBackward, stage, micro_batch};
  const ScheduledJob input = {JobType::kBackwardInput, stage, micro_batch};
  const ScheduledJob weight = {JobType::kBackwardWeight, stage, micro_batch};
  const bool has_input = Find(input) >= 0;
  const bool has_weight = Find(weight) >= 0;
  if (Find(whole) >= 0) {
    if (!has_input && !has_weight) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("both ", whole.ToString(), " and ",
                     (has_input ? input : weight).ToString()));
  }
  if (!has_input && !has_weight) return Missing(whole);
  if (!has_input) return Missing(input);
  if (!has_weight) return Missing(weight);
  return absl::OkStatus();
}

absl::Status JobGraph::CheckComplete() const {
  const bool has_reduce = HasJob(JobType::kReduce);
  const bool has_update = has_reduce || HasJob(JobType::kUpdate);
  const bool has_backward =
      has_update || absl::c_any_of(jobs_, [](const ScheduledJob& job) {
        return job.type != JobType::kForward;
      });
  for (int stage = 0; stage < num_stages(); ++stage) {
    for (int batch = 0; batch < num_micro_batches_; ++batch) {
      const ScheduledJob forward = {JobType::kForward, stage, batch};
      if (Find(forward) < 0) return Missing(forward);
      if (has_backward) MICA_RETURN_IF_ERROR(CheckBackward(stage, batch));
    }
    const ScheduledJob reduce = {JobType::kReduce, stage,
                                 ScheduledJob::kAllMicroBatches};
    if (has_reduce && Find(reduce) < 0) return Missing(reduce);
    const ScheduledJob update = {JobType::kUpdate, stage,
                                 ScheduledJob::kAllMicroBatches};
    if (has_update && Find(update) < 0) return Missing(update);
  }
  return absl::OkStatus();
}

bool JobGraph::HasJob(JobType type) const {
  return absl::c_any_of(
      jobs_, [type](const ScheduledJob& job) { return job.type == type; });
}

void JobGraph::Connect() {
  const bool has_reduce = HasJob(JobType::kReduce);
  inputs_.resize(jobs_.size());
  for (JobId id = 0; id < num_jobs(); ++id) {
    const auto [type, stage, batch] = jobs_[id];
    std::vector<JobId>& inputs = inputs_[id];
    switch (type) {
      case JobType::kForward:
        if (stage > 0) {
          inputs.push_back(Find({JobType::kForward, stage - 1, batch}));
        }
        break;
      case JobType::kBackward:
      case JobType::kBackwardInput:
        inputs.push_back(Find({JobType::kForward, stage, batch}));
        if (stage + 1 < num_stages()) {
          inputs.push_back(BackwardInput(stage + 1, batch));
        }
        break;
      case JobType::kBackwardWeight:
        inputs.push_back(Find({JobType::kForward, stage, batch}));
        inputs.push_back(Find({JobType::kBackwardInput, stage, batch}));
        break;
      case JobType::kReduce:
        for (int i = 0; i < num_micro_batches_; ++i) {
          inputs.push_back(BackwardWeight(stage, i));
        }
        break;
      case JobType::kUpdate:
        if (has_reduce) {
          // Its own one, too, which waits for its micro-batches.
          for (int i = 0; i < num_stages(); ++i) {
            inputs.push_back(
                Find({JobType::kReduce, i, ScheduledJob::kAllMicroBatches}));
          }
          break;
        }
        for (int i = 0; i < num_micro_batches_; ++i) {
          inputs.push_back(BackwardWeight(stage, i));
        }
        break;
    }
  }
}

absl::Status JobGraph::Sort() {
  std::vector<JobId> next(begins_.begin(), begins_.end() - 1);
  std::vector<bool> is_done(jobs_.size(), false);
  // Devices that may go on: at first all, then those that a Job has waited on.
  std::vector<std::vector<int>> waiting(jobs_.size());
  std::vector<int> ready;
  for (int device = num_devices() - 1; device >= 0; --device) {
    ready.push_back(device);
  }
  while (!ready.empty()) {
    const int device = ready.back();
    ready.pop_back();
    for (; next[device] < end(device); ++next[device]) {
      const JobId id = next[device];
      const auto awaited = absl::c_find_if(
          inputs_[id], [&](JobId input) { return !is_done[input]; });
      if (awaited != inputs_[id].end()) {
        waiting[*awaited].push_back(device);
        break;
      }
      is_done[id] = true;
      order_.push_back(id);
      ready.insert(ready.end(), waiting[id].begin(), waiting[id].end());
    }
  }
  if (order_.size() == jobs_.size()) return absl::OkStatus();
  return DescribeDeadlock(next);
}

absl::Status JobGraph::DescribeDeadlock(absl::Span<const JobId> next) const {
  // Each device that can't go on waits for another one, or for itself.
  const auto awaited = [&](int waiting) {
    return *absl::c_find_if(inputs_[next[waiting]], [&](JobId input) {
      return input >= next[device(input)];
    });
  };
  int at = 0;
  while (next[at] == end(at)) ++at;
  for (int i = 0; i < num_devices(); ++i) at = device(awaited(at));
  std::vector<std::string> cycle;
  const int first = at;
  do {
    const JobId id = awaited(at);
    const int to = device(id);
    std::string line =
        absl::StrCat(On(at, job(next[at])), " waits for ", job(id).ToString());
    if (id != next[to]) {
      absl::StrAppend(&line, ", which device ", to, " runs after ",
                      job(next[to]).ToString());
    }
    cycle.push_back(std::move(line));
    at = to;
  } while (at != first);
  return absl::InvalidArgumentError(
      absl::StrCat("deadlock: ", absl::StrJoin(cycle, "; ")));
}

}  // namespace mica
