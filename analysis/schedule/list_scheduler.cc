#include "analysis/schedule/list_scheduler.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>

#include "absl/strings/str_cat.h"

namespace mica {
namespace {

// When a Job ended, or its inputs are there; nothing if that isn't known yet.
using Moment = std::optional<double>;

// A Job that could be next on its device. The lowest rank of those that are
// ready goes first.
struct Candidate {
  ScheduledJob job;
  Moment ready;
  std::array<int, 4> rank = {};
};

class ListScheduler {
 public:
  ListScheduler(const ListPolicy& policy, int micro_batches,
                const ScheduleCosts& costs)
      : policy_(policy),
        costs_(costs),
        num_batches_(micro_batches),
        num_stages_(static_cast<int>(policy.device_of_stage.size())),
        devices_(policy.num_devices),
        stages_(num_stages_) {
    for (int stage = 0; stage < num_stages_; ++stage) {
      stages_[stage].forward.resize(num_batches_);
      stages_[stage].backward.resize(num_batches_);
      devices_[policy.device_of_stage[stage]].stages.push_back(stage);
    }
  }

  absl::StatusOr<Schedule> Run() {
    const int per_batch = policy_.split_backward ? 3 : 2;
    const int64_t num_jobs = int64_t{per_batch} * num_stages_ * num_batches_;
    for (int64_t i = 0; i < num_jobs; ++i) {
      if (!RunNext()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the limits of live activations let none of the ",
                         num_jobs - i, " Jobs run that are left"));
      }
    }
    Schedule schedule = {.num_micro_batches = num_batches_,
                         .device_of_stage = policy_.device_of_stage};
    for (Device& device : devices_) {
      schedule.devices.push_back(std::move(device.jobs));
    }
    return schedule;
  }

 private:
  struct Device {
    std::vector<int> stages;
    std::vector<ScheduledJob> jobs;
    std::deque<ScheduledJob> weights;  // That may run, in order.
    double free = 0;
    int in_flight = 0;
    int live = 0;
    int num_forward = 0;
    // What Choose() said, unless something has changed that it depends on.
    std::optional<Candidate> next;
    bool is_changed = true;
  };
  struct Stage {
    int num_forward = 0;
    int num_backward = 0;
    std::vector<Moment> forward;   // By micro-batch.
    std::vector<Moment> backward;  // Of the Job that gives inputs' gradients.
  };

  // Times the Job that can start first, on whatever device.
  bool RunNext() {
    std::optional<Candidate> best;
    double best_start = 0;
    for (Device& device : devices_) {
      if (device.is_changed) device.next = Choose(device);
      device.is_changed = false;
      const std::optional<Candidate>& next = device.next;
      if (!next.has_value()) continue;
      const double start = std::max(device.free, *next->ready);
      if (best.has_value() && start >= best_start) continue;
      best = next;
      best_start = start;
    }
    if (best.has_value()) Record(best->job, best_start);
    return best.has_value();
  }

  std::optional<Candidate> Choose(const Device& device) {
    candidates_.clear();
    AddForward(device);
    AddBackward(device);
    if (!device.weights.empty()) {
      const ScheduledJob& job = device.weights.front();
      candidates_.push_back(
          {.job = job,
           .ready = *stages_[job.stage].backward[job.micro_batch],
           .rank = {2}});
    }
    if (candidates_.empty()) return std::nullopt;
    double start = *candidates_[0].ready;
    for (const Candidate& candidate : candidates_) {
      start = std::min(start, *candidate.ready);
    }
    start = std::max(start, device.free);
    const Candidate* best = nullptr;
    for (const Candidate& candidate : candidates_) {
      if (*candidate.ready > start) continue;
      if (best == nullptr || candidate.rank < best->rank) best = &candidate;
    }
    if (best->job.type != JobType::kBackwardWeight) return *best;
    return Awaited(*best, start);
  }

  // The next Job that is ready soon enough after `start` to wait for, instead
  // of a weights' Job.
  const Candidate& Awaited(const Candidate& weights, double start) const {
    const double until =
        start + policy_.patience *
                    costs_.Of(JobType::kBackwardWeight, weights.job.stage);
    const Candidate* next = nullptr;
    for (const Candidate& candidate : candidates_) {
      if (candidate.job == weights.job || *candidate.ready >= until) continue;
      if (next == nullptr || *candidate.ready < *next->ready) next = &candidate;
    }
    return next == nullptr ? weights : *next;
  }

  void AddForward(const Device& device) {
    const size_t first = candidates_.size();
    for (int stage : device.stages) {
      const int batch = stages_[stage].num_forward;
      if (batch == num_batches_) continue;
      const bool may = device.in_flight < policy_.max_in_flight[stage] &&
                       device.live < policy_.max_live[stage];
      Add({.job = {JobType::kForward, stage, batch},
           .ready = may ? ForwardReady(stage, batch) : Moment(),
           .rank = Rank(JobType::kForward, stage, batch)},
          first);
    }
    DropUnready(first);
  }

  void AddBackward(const Device& device) {
    const size_t first = candidates_.size();
    const int all = num_batches_ * static_cast<int>(device.stages.size());
    if (policy_.hold_backward && device.num_forward < all) return;
    const JobType type =
        policy_.split_backward ? JobType::kBackwardInput : JobType::kBackward;
    for (int stage : device.stages) {
      const int batch = stages_[stage].num_backward;
      if (batch == num_batches_) continue;
      Add({.job = {type, stage, batch},
           .ready = BackwardReady(stage, batch),
           .rank = Rank(type, stage, batch)},
          first);
    }
    DropUnready(first);
  }

  // In order, only the one of those from `first` on whose turn it is is kept.
  void Add(Candidate candidate, size_t first) {
    if (policy_.in_order && candidates_.size() > first) {
      if (candidate.rank < candidates_[first].rank) {
        candidates_[first] = candidate;
      }
    } else if (policy_.in_order || candidate.ready.has_value()) {
      candidates_.push_back(candidate);
    }
  }
  void DropUnready(size_t first) {
    if (candidates_.size() > first && !candidates_[first].ready.has_value()) {
      candidates_.pop_back();
    }
  }

  std::array<int, 4> Rank(JobType type, int stage, int batch) const {
    const bool is_forward = type == JobType::kForward;
    const int kind = is_forward == policy_.backward_first ? 1 : 0;
    const int round = policy_.num_devices;
    const int chunk = stage / round;
    switch (is_forward ? policy_.forward_order : policy_.backward_order) {
      case BatchOrder::kRounds:
        return {kind, batch / round, is_forward ? chunk : -chunk,
                batch % round};
      case BatchOrder::kStage:
        return {kind, -stage, batch, 0};
      case BatchOrder::kBatch:
        return {kind, batch, -stage, 0};
    }
    return {};
  }

  // When the value of a Job on stage `from` is there on stage `to`.
  Moment Arrival(Moment end, int from, int to) const {
    if (!end.has_value()) return end;
    const bool is_sent =
        policy_.device_of_stage[from] != policy_.device_of_stage[to];
    return *end + (is_sent ? costs_.send : 0);
  }
  Moment ForwardReady(int stage, int batch) const {
    if (stage == 0) return 0;
    return Arrival(stages_[stage - 1].forward[batch], stage - 1, stage);
  }
  Moment BackwardReady(int stage, int batch) const {
    const Moment forward = stages_[stage].forward[batch];
    if (!forward.has_value() || stage + 1 == num_stages_) return forward;
    const Moment gradient =
        Arrival(stages_[stage + 1].backward[batch], stage + 1, stage);
    if (!gradient.has_value()) return gradient;
    return std::max(*forward, *gradient);
  }

  void Record(const ScheduledJob& job, double start) {
    Device& device = devices_[policy_.device_of_stage[job.stage]];
    Stage& stage = stages_[job.stage];
    const double end = start + costs_.Of(job.type, job.stage);
    device.jobs.push_back(job);
    device.free = end;
    const int last_reader = std::min(job.stage + 1, num_stages_ - 1);
    for (int i = std::max(job.stage - 1, 0); i <= last_reader; ++i) {
      devices_[policy_.device_of_stage[i]].is_changed = true;
    }
    switch (job.type) {
      case JobType::kForward:
        stage.forward[job.micro_batch] = end;
        ++stage.num_forward;
        ++device.num_forward;
        ++device.in_flight;
        ++device.live;
        break;
      case JobType::kBackward:
      case JobType::kBackwardInput:
        stage.backward[job.micro_batch] = end;
        ++stage.num_backward;
        --device.in_flight;
        if (job.type == JobType::kBackward) {
          --device.live;
        } else {
          device.weights.push_back(
              {JobType::kBackwardWeight, job.stage, job.micro_batch});
        }
        break;
      case JobType::kBackwardWeight:
        device.weights.pop_front();
        --device.live;
        break;
      case JobType::kReduce:
      case JobType::kUpdate:
        break;
    }
  }

  const ListPolicy& policy_;
  const ScheduleCosts& costs_;
  const int num_batches_;
  const int num_stages_;
  std::vector<Device> devices_;
  std::vector<Stage> stages_;
  std::vector<Candidate> candidates_;  // Of the device at hand.
};

}  // namespace

absl::StatusOr<Schedule> OrderJobs(const ListPolicy& policy, int micro_batches,
                                   const ScheduleCosts& costs) {
  return ListScheduler(policy, micro_batches, costs).Run();
}

}  // namespace mica
