#include "analysis/streams/stream_plan.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "framework/base/large_vector.h"
#include "glog/logging.h"

namespace mica {
namespace {

constexpr int32_t kNoStep = -1;

}  // namespace

int32_t StreamPlan::num_events() const {
  absl::flat_hash_set<int32_t> signals;
  for (const Wait& wait : waits) signals.insert(wait.signal);
  return static_cast<int32_t>(signals.size());
}

StreamPlan PlanStreams(const StepGraph& graph, absl::Span<const double> costs,
                       const StreamOptions& options) {
  CHECK_GE(options.num_streams, 1);
  CHECK_EQ(costs.size(), static_cast<size_t>(graph.num_steps()));
  StreamPlan plan{.num_streams = options.num_streams};
  plan.streams.reserve(graph.num_steps());
  LargeVector<double> end(graph.num_steps(), 0);
  std::vector<double> free_at(options.num_streams, 0);
  // The latest end of what a step must come after, on each stream.
  std::vector<double> ready(options.num_streams);
  for (int32_t step = 0; step < graph.num_steps(); ++step) {
    std::fill(ready.begin(), ready.end(), -1);
    int32_t last = kNoStep;
    for (int32_t other : graph.before(step)) {
      double& latest = ready[plan.streams[other]];
      latest = std::max(latest, end[other]);
      if (last == kNoStep || end[other] >= end[last]) last = other;
    }
    int32_t best = 0;
    double best_start = 0;
    const bool is_on_first =
        !options.is_on_first.empty() && options.is_on_first[step];
    const int32_t num_choices = is_on_first ? 1 : options.num_streams;
    for (int32_t stream = 0; stream < num_choices; ++stream) {
      double start = free_at[stream];
      for (int32_t other = 0; other < options.num_streams; ++other) {
        if (other == stream || ready[other] < 0) continue;
        start = std::max(start, ready[other] + options.wait_cost);
      }
      const bool follows = last != kNoStep && plan.streams[last] == stream;
      if (stream == 0 || start < best_start ||
          (start == best_start && follows)) {
        best = stream;
        best_start = start;
      }
    }
    plan.streams.push_back(best);
    end[step] = free_at[best] = best_start + costs[step];
    plan.makespan = std::max(plan.makespan, end[step]);
  }
  plan.waits = FindWaits(graph, plan.streams, options.num_streams);
  return plan;
}

std::vector<Wait> FindWaits(const StepGraph& graph,
                            absl::Span<const int32_t> streams,
                            int32_t num_streams) {
  // clock(step)[stream]: the last step of `stream` that has surely ended when
  // `step` has; steps of one stream are in launch order.
  LargeVector<int32_t> clocks(static_cast<size_t>(graph.num_steps()) *
                              num_streams);
  auto clock = [&](int32_t step) {
    return absl::MakeSpan(clocks).subspan(
        static_cast<size_t>(step) * num_streams, num_streams);
  };
  std::vector<int32_t> last_on(num_streams, kNoStep);
  std::vector<int32_t> latest(num_streams);
  std::vector<Wait> waits;
  for (int32_t step = 0; step < graph.num_steps(); ++step) {
    const int32_t own = streams[step];
    absl::Span<int32_t> known = clock(step);
    if (last_on[own] == kNoStep) {
      std::fill(known.begin(), known.end(), kNoStep);
    } else {
      std::copy_n(clock(last_on[own]).begin(), num_streams, known.begin());
    }
    // Of each stream only the last counts, if it isn't known to have ended.
    std::fill(latest.begin(), latest.end(), kNoStep);
    for (int32_t other : graph.before(step)) {
      latest[streams[other]] = std::max(latest[streams[other]], other);
    }
    for (int32_t stream = 0; stream < num_streams; ++stream) {
      if (latest[stream] <= known[stream]) latest[stream] = kNoStep;
    }
    for (int32_t stream = 0; stream < num_streams; ++stream) {
      const int32_t signal = latest[stream];
      if (signal == kNoStep) continue;
      const bool is_implied =
          std::any_of(latest.begin(), latest.end(), [&](int32_t other) {
            return other != kNoStep && other != signal &&
                   clock(other)[stream] >= signal;
          });
      if (!is_implied) waits.push_back({.signal = signal, .waiter = step});
    }
    for (int32_t signal : latest) {
      if (signal == kNoStep) continue;
      const absl::Span<const int32_t> theirs = clock(signal);
      for (int32_t stream = 0; stream < num_streams; ++stream) {
        known[stream] = std::max(known[stream], theirs[stream]);
      }
    }
    known[own] = step;
    last_on[own] = step;
  }
  std::sort(waits.begin(), waits.end(), [](const Wait& a, const Wait& b) {
    return std::pair(a.waiter, a.signal) < std::pair(b.waiter, b.signal);
  });
  return waits;
}

}  // namespace mica
