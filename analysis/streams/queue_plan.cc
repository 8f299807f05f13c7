#include "analysis/streams/queue_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "glog/logging.h"

namespace mica {
namespace {

// Adds to `graph` that nothing runs beside the steps in `is_alone`: such a step
// comes after all before it, and all behind it come after it.
StepGraph WithSoloists(const StepGraph& graph,
                       const std::vector<bool>& is_alone) {
  StepGraph all;
  int32_t last_alone = -1;
  // Since the last soloist: the steps that no other comes after yet.
  std::vector<bool> is_end(graph.num_steps(), false);
  for (int32_t step = 0; step < graph.num_steps(); ++step) {
    const absl::Span<const int32_t> given = graph.before(step);
    std::vector<int32_t> before(given.begin(), given.end());
    if (last_alone >= 0) before.push_back(last_alone);
    if (is_alone[step]) {
      for (int32_t other = last_alone + 1; other < step; ++other) {
        if (is_end[other]) before.push_back(other);
      }
      last_alone = step;
    }
    for (int32_t other : before) is_end[other] = false;
    is_end[step] = true;
    all.AddStep(std::move(before));
  }
  return all;
}

void AddAfter(const StepGraph& graph, QueuePlan& plan) {
  const int32_t num_steps = graph.num_steps();
  plan.after_ends.assign(num_steps, 0);
  for (int32_t step = 0; step < num_steps; ++step) {
    const absl::Span<const int32_t> before = graph.before(step);
    plan.num_before.push_back(static_cast<int32_t>(before.size()));
    for (int32_t other : before) ++plan.after_ends[other];
  }
  std::partial_sum(plan.after_ends.begin(), plan.after_ends.end(),
                   plan.after_ends.begin());
  plan.after_steps.resize(num_steps == 0 ? 0 : plan.after_ends.back());
  std::vector<int32_t> next(num_steps, 0);
  for (int32_t step = 1; step < num_steps; ++step) {
    next[step] = plan.after_ends[step - 1];
  }
  for (int32_t step = 0; step < num_steps; ++step) {
    for (int32_t other : graph.before(step)) {
      plan.after_steps[next[other]++] = step;
    }
  }
}

}  // namespace

QueuePlan PlanQueue(const StepGraph& graph, absl::Span<const double> costs,
                    const QueueOptions& options) {
  CHECK_GE(options.num_workers, 1);
  CHECK_EQ(costs.size(), static_cast<size_t>(graph.num_steps()));
  if (absl::c_linear_search(options.is_alone, true)) {
    QueueOptions rest = options;
    rest.is_alone.clear();
    return PlanQueue(WithSoloists(graph, options.is_alone), costs, rest);
  }
  const int32_t num_steps = graph.num_steps();
  QueuePlan plan{.num_workers = options.num_workers,
                 .is_on_caller = options.is_on_caller};
  plan.is_on_caller.resize(num_steps, false);
  AddAfter(graph, plan);
  std::vector<double> path(num_steps, 0);
  for (int32_t step = num_steps - 1; step >= 0; --step) {
    const double shared = costs[step] > options.wide_cost
                              ? costs[step] / options.num_workers
                              : costs[step];
    for (int32_t other : plan.after(step)) {
      path[step] = std::max(path[step], path[other]);
    }
    path[step] += shared + options.take_cost;
  }
  std::vector<int32_t> order(num_steps);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return path[a] > path[b]; });
  plan.ranks.resize(num_steps);
  for (int32_t i = 0; i < num_steps; ++i) plan.ranks[order[i]] = i;
  return plan;
}

}  // namespace mica
