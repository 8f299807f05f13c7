#include "analysis/streams/queue_times.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace mica {
namespace {

template <typename T>
using LowestFirst = std::priority_queue<T, std::vector<T>, std::greater<T>>;

// By rank.
using RankedSteps = LowestFirst<std::pair<int32_t, int32_t>>;

}  // namespace

QueueTimes SimulateQueue(const QueuePlan& queue, absl::Span<const double> costs,
                         const QueueOptions& options) {
  // A step that ends, and its worker.
  struct Ending {
    double time;
    int32_t step;
    int32_t worker;
    bool operator>(const Ending& other) const {
      return std::pair(time, step) > std::pair(other.time, other.step);
    }
  };
  const int32_t num_steps = queue.num_steps();
  QueueTimes times{.start = std::vector<double>(num_steps, 0),
                   .end = std::vector<double>(num_steps, 0)};
  std::vector<int32_t> num_before = queue.num_before;
  // Steps by rank that became ready on each worker.
  std::vector<RankedSteps> ready(options.num_workers);
  for (int32_t step = 0; step < num_steps; ++step) {
    if (num_before[step] == 0) ready[0].emplace(queue.ranks[step], step);
  }
  LowestFirst<Ending> endings;
  std::vector<bool> is_idle(options.num_workers, true);
  int32_t num_idle = options.num_workers;
  double now = 0;
  auto start = [&](int32_t worker, int32_t step) {
    const bool is_last =
        std::all_of(ready.begin(), ready.end(),
                    [](const RankedSteps& steps) { return steps.empty(); });
    const bool is_shared = is_last && costs[step] > options.wide_cost;
    const int32_t num_workers = is_shared ? num_idle : 1;
    is_idle[worker] = false;
    --num_idle;
    times.start[step] = now;
    times.end[step] = now + options.take_cost + costs[step] / num_workers;
    times.order.push_back(step);
    endings.push({times.end[step], step, worker});
  };
  // For a worker that is idle; false if there is nothing.
  auto take = [&](int32_t worker) {
    RankedSteps* best = &ready[worker];
    if (best->empty()) {
      for (RankedSteps& other : ready) {
        const bool is_better =
            !other.empty() &&
            (best->empty() || other.top().first < best->top().first);
        if (is_better) best = &other;
      }
    }
    if (best->empty()) return false;
    const int32_t step = best->top().second;
    best->pop();
    start(worker, step);
    return true;
  };
  take(0);
  while (!endings.empty()) {
    for (int32_t worker = 0; worker < options.num_workers; ++worker) {
      if (is_idle[worker]) take(worker);
    }
    const Ending ending = endings.top();
    endings.pop();
    now = ending.time;
    is_idle[ending.worker] = true;
    ++num_idle;
    int32_t next = -1;
    for (int32_t step : queue.after(ending.step)) {
      if (--num_before[step] > 0) continue;
      int32_t other = step;
      if (next < 0 || queue.ranks[step] < queue.ranks[next]) {
        std::swap(other, next);
      }
      if (other >= 0) ready[ending.worker].emplace(queue.ranks[other], other);
    }
    if (next < 0) continue;
    start(ending.worker, next);
  }
  times.makespan = now;
  return times;
}

}  // namespace mica
