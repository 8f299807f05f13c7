// On which streams, or in which order, steps run.

#include <algorithm>
#include <utility>
#include <vector>

#include "analysis/plan/planner.h"
#include "analysis/plan/step_facts.h"
#include "analysis/streams/queue_times.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

// What is worth a piece of its own in a queue.
constexpr double kPieceNanoseconds = 25'000;
// How many times its estimate a step may take before others wait for its bytes.
constexpr double kPatience = 2;
// A queue must take less than this share of the time without one.
constexpr double kWorthwhile = 0.9;

}  // namespace

// A queue's workers come and go: with two pieces for each, one that comes late
// still finds some to do. Narrow steps aren't cut: others run beside them.
int Planner::NumPieces(const Op& op) const {
  if (!options_.has_queue()) return options_.num_threads;
  const double pieces = CostOf(program(), op) / kPieceNanoseconds;
  const int most = 2 * options_.num_threads;
  return pieces >= most ? most : std::max(static_cast<int>(pieces), 1);
}

void Planner::PlaceOnStreams() {
  const TraceSpan span("analysis", "place on streams");
  const StepId end = plan_->num_compute_;
  const StepGraph graph = FindHazards(AccessesOf(*plan_, 0, end));
  StreamPlan streams = PlanStreams(graph, CostsOf(*plan_, 0, end),
                                   {.num_streams = options_.num_streams,
                                    .wait_cost = options_.wait_nanoseconds,
                                    .is_on_first = HasEffects(*plan_, 0, end)});
  if (!streams.waits.empty()) plan_->streams_ = std::move(streams);
}

QueueOptions Planner::MakeQueueOptions() const {
  const StepId end = plan_->num_compute_;
  return {.num_workers = options_.num_threads,
          .take_cost = options_.take_nanoseconds,
          .wide_cost = 2 * kPieceNanoseconds,
          .is_on_caller = HasEffects(*plan_, 0, end),
          .is_alone = AreAtens(*plan_, 0, end)};
}

// Steps that may run at once must not share bytes: each slice lives, in the
// order in which workers would start steps, until they start the last step
// before the slice's last one ends.
void Planner::OrderForQueue() {
  const TraceSpan span("analysis", "order for a queue");
  const StepId end = plan_->num_compute_;
  const LargeVector<Location> args = plan_->args_;
  for (size_t i = 0; i < arg_slices_.size(); ++i) {
    if (arg_slices_[i] < 0) continue;
    // As if no two slices had a byte in common.
    plan_->args_[i].home = Home::kOutput;
    plan_->args_[i].index =
        static_cast<int32_t>(program().outputs().size()) + arg_slices_[i];
  }
  const std::vector<double> costs = CostsOf(*plan_, 0, end);
  const QueueOptions options = MakeQueueOptions();
  const QueuePlan queue =
      PlanQueue(FindHazards(AccessesOf(*plan_, 0, end)), costs, options);
  plan_->args_ = args;
  const QueueTimes times = SimulateQueue(queue, costs, options);
  double sum = 0;
  for (double cost : costs) sum += cost;
  is_queue_of_use_ = times.makespan < kWorthwhile * sum;
  if (!is_queue_of_use_) return;

  std::vector<Step> steps;
  std::vector<double> starts;
  for (StepId id : times.order) {
    steps.push_back(std::move(plan_->steps_[id]));
    starts.push_back(times.start[id]);
  }
  for (Lifetime& slice : slices_) slice.first = slice.last = -1;
  first_writes_.assign(first_writes_.size(), -1);
  for (StepId at = 0; at < current_step(); ++at) {
    const bool is_commit = at >= end;
    const Step& step = is_commit ? plan_->steps_[at] : steps[at];
    StepId last = at;
    if (!is_commit) {
      const double start = times.start[times.order[at]];
      const double until =
          start + kPatience * (times.end[times.order[at]] - start);
      const auto it = std::lower_bound(starts.begin(), starts.end(), until);
      last = std::max(at, static_cast<StepId>(it - starts.begin()) - 1);
    }
    for (int32_t i = step.first_arg; i < step.first_arg + step.num_args; ++i) {
      NoteWrite(plan_->args_[i], at);
      const SliceId id = arg_slices_[i];
      if (id < 0) continue;
      Lifetime& slice = slices_[id];
      if (slice.first < 0) slice.first = at;
      slice.last = std::max(slice.last, last);
    }
  }
  KeepForUndo();
  for (Lifetime& slice : slices_) {
    if (slice.first < 0) slice = {};  // No step names it.
  }
  std::move(steps.begin(), steps.end(), plan_->steps_.begin());
}

void Planner::PlaceInQueue() {
  const TraceSpan span("analysis", "plan the queue");
  const StepId end = plan_->num_compute_;
  plan_->queue_ = PlanQueue(FindHazards(AccessesOf(*plan_, 0, end)),
                            CostsOf(*plan_, 0, end), MakeQueueOptions());
}

}  // namespace mica
