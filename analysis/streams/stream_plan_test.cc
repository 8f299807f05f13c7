#include "analysis/streams/stream_plan.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "analysis/streams/happens_before.h"
#include "framework/base/test_matchers.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kNumGraphs = 10'000;

// Steps over 96 bytes of two spaces, so that they reuse a lot.
StepAccesses RandomAccesses(std::mt19937& random) {
  StepAccesses accesses;
  const auto num_steps = static_cast<int32_t>(2 + random() % 38);
  for (int32_t step = 0; step < num_steps; ++step) {
    const auto num_accesses = static_cast<int>(1 + random() % 4);
    for (int i = 0; i < num_accesses; ++i) {
      const auto begin = static_cast<int64_t>(random() % 40);
      accesses.Add(
          {.space = static_cast<int32_t>(random() % 2),
           .begin = begin,
           .end = begin + 1 + static_cast<int64_t>(random() % 8),
           .is_write = i == 0 ? random() % 8 != 0 : random() % 8 == 0});
    }
    accesses.EndStep();
  }
  return accesses;
}

std::vector<double> RandomCosts(int32_t num_steps, std::mt19937& random) {
  std::vector<double> costs;
  for (int32_t i = 0; i < num_steps; ++i) {
    costs.push_back(1 + static_cast<double>(random() % 20));
  }
  return costs;
}

template <typename Test>
void ForEachGraph(Test test) {
  for (int seed = 0; seed < kNumGraphs && !testing::Test::HasFailure();
       ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const StepAccesses accesses = RandomAccesses(random);
    const StepGraph graph = FindHazards(accesses);
    const StreamPlan plan =
        PlanStreams(graph, RandomCosts(graph.num_steps(), random),
                    {.num_streams = static_cast<int32_t>(1 + random() % 8),
                     .wait_cost = static_cast<double>(random() % 3)});
    test(accesses, graph, plan, random);
  }
}

// The edges between streams of the transitive reduction, by all pairs.
std::vector<Wait> ReductionByAllPairs(const StepGraph& graph,
                                      const std::vector<int32_t>& streams) {
  const int32_t n = graph.num_steps();
  std::vector<std::vector<bool>> is_after(n, std::vector<bool>(n, false));
  for (int32_t step = 0; step < n; ++step) {
    auto follow = [&](int32_t other) {
      is_after[step][other] = true;
      for (int32_t i = 0; i < other; ++i) {
        if (is_after[other][i]) is_after[step][i] = true;
      }
    };
    for (int32_t other : graph.before(step)) follow(other);
    for (int32_t other = 0; other < step; ++other) {
      if (streams[other] == streams[step]) follow(other);
    }
  }
  std::vector<Wait> waits;
  for (int32_t step = 0; step < n; ++step) {
    for (int32_t other = 0; other < step; ++other) {
      if (!is_after[step][other] || streams[other] == streams[step]) continue;
      bool is_implied = false;
      for (int32_t i = other + 1; i < step; ++i) {
        is_implied = is_implied || (is_after[step][i] && is_after[i][other]);
      }
      if (!is_implied) waits.push_back({.signal = other, .waiter = step});
    }
  }
  return waits;
}

// Memory in which each byte holds a number, and what steps find there.
class Memory {
 public:
  uint64_t Read(const StepAccesses& accesses, int32_t step) const {
    uint64_t found = 0;
    for (const Access& access : accesses.of(step)) {
      if (access.is_write) continue;
      for (int64_t at = access.begin; at < access.end; ++at) {
        const auto it = bytes_.find({access.space, at});
        found = found * 1'000'003 + (it == bytes_.end() ? 7 : it->second);
      }
    }
    return found;
  }

  void Write(const StepAccesses& accesses, int32_t step, uint64_t value) {
    for (const Access& access : accesses.of(step)) {
      if (!access.is_write) continue;
      for (int64_t at = access.begin; at < access.end; ++at) {
        bytes_[{access.space, at}] = value;
      }
    }
  }

 private:
  std::map<std::pair<int32_t, int64_t>, uint64_t> bytes_;
};

bool ReadsItsOwn(const StepAccesses& accesses, int32_t step) {
  for (const Access& read : accesses.of(step)) {
    for (const Access& write : accesses.of(step)) {
      if (!read.is_write && write.is_write && read.space == write.space &&
          read.begin < write.end && write.begin < read.end) {
        return true;
      }
    }
  }
  return false;
}

// A device whose streams run at once and whose steps take random times: memory
// holds garbage from a step's start to its end, and what it reads must stay.
class SimulatedDevice {
 public:
  SimulatedDevice(const StepAccesses& accesses, const StreamPlan& plan,
                  std::mt19937& random)
      : accesses_(accesses),
        plan_(plan),
        random_(random),
        queues_(plan.num_streams),
        missing_(plan.streams.size(), 0),
        found_(plan.streams.size(), 0) {
    for (int32_t step = 0; step < accesses.num_steps(); ++step) {
      queues_[plan.streams[step]].push(step);
    }
    for (const Wait& wait : plan.waits) ++missing_[wait.waiter];
  }

  // What each step read; a step whose operands changed meanwhile read 0.
  std::vector<uint64_t> Run() {
    for (int32_t i = 0; i < plan_.num_streams; ++i) StartNext(i);
    while (!running_.empty()) {
      const auto [time, step] = running_.top();
      running_.pop();
      now_ = time;
      if (!ReadsItsOwn(accesses_, step) &&
          memory_.Read(accesses_, step) != found_[step]) {
        found_[step] = 0;
      }
      memory_.Write(accesses_, step, found_[step] + step);
      queues_[plan_.streams[step]].pop();
      for (const Wait& wait : plan_.waits) {
        if (wait.signal == step) --missing_[wait.waiter];
      }
      is_busy_[plan_.streams[step]] = false;
      for (int32_t i = 0; i < plan_.num_streams; ++i) StartNext(i);
    }
    return found_;
  }

 private:
  void StartNext(int32_t stream) {
    if (is_busy_[stream] || queues_[stream].empty()) return;
    const int32_t step = queues_[stream].front();
    if (missing_[step] > 0) return;
    is_busy_[stream] = true;
    found_[step] = memory_.Read(accesses_, step);
    memory_.Write(accesses_, step, ~uint64_t{0} - step);
    running_.emplace(now_ + 1 + random_() % 100, step);
  }

  const StepAccesses& accesses_;
  const StreamPlan& plan_;
  std::mt19937& random_;
  std::vector<std::queue<int32_t>> queues_;
  std::vector<int32_t> missing_;  // Signals, by step.
  std::vector<uint64_t> found_;   // By step.
  std::map<int32_t, bool> is_busy_;
  std::priority_queue<std::pair<uint64_t, int32_t>,
                      std::vector<std::pair<uint64_t, int32_t>>, std::greater<>>
      running_;
  Memory memory_;
  uint64_t now_ = 0;
};

TEST(HazardsTest, DataAndReuseAreHazards) {
  StepAccesses accesses;
  accesses.Add({.end = 8, .is_write = true});
  accesses.EndStep();
  accesses.Add({.end = 4});
  accesses.EndStep();
  accesses.Add({.begin = 4, .end = 8});
  accesses.EndStep();
  accesses.Add({.begin = 2, .end = 6, .is_write = true});
  accesses.EndStep();
  accesses.Add({.space = 1, .end = 8});
  accesses.EndStep();
  const StepGraph graph = FindHazards(accesses);
  EXPECT_THAT(graph.before(0), IsEmpty());
  EXPECT_THAT(graph.before(1), ElementsAre(0));
  EXPECT_THAT(graph.before(2), ElementsAre(0));
  EXPECT_THAT(graph.before(3), ElementsAre(0, 1, 2));
  EXPECT_THAT(graph.before(4), IsEmpty());
}

TEST(StreamPlanTest, PutsWhatIsIndependentOnStreamsOfItsOwn) {
  StepGraph graph;
  graph.AddStep({});      // 0
  graph.AddStep({0});     // 1, a branch
  graph.AddStep({0});     // 2, another
  graph.AddStep({1});     // 3
  graph.AddStep({2});     // 4
  graph.AddStep({3, 4});  // 5
  const StreamPlan plan =
      PlanStreams(graph, std::vector<double>(6, 1.0), {.num_streams = 2});
  EXPECT_THAT(plan.streams, ElementsAre(0, 0, 1, 0, 1, 1));
  EXPECT_THAT(plan.waits, ElementsAre(Wait{.signal = 0, .waiter = 2},
                                      Wait{.signal = 3, .waiter = 5}));
  EXPECT_EQ(plan.makespan, 4);
  EXPECT_EQ(plan.num_events(), 2);
}

TEST(StreamPlanTest, OneStreamNeedsNoWaits) {
  StepGraph graph;
  graph.AddStep({});
  for (int32_t i = 1; i < 10; ++i) graph.AddStep({0, i / 2});
  EXPECT_THAT(FindWaits(graph, std::vector<int32_t>(10, 0), 1), IsEmpty());
}

TEST(StreamPlanTest, WaitsAreTheTransitiveReduction) {
  ForEachGraph([](const StepAccesses&, const StepGraph& graph,
                  const StreamPlan& plan, std::mt19937&) {
    EXPECT_EQ(plan.waits, ReductionByAllPairs(graph, plan.streams));
  });
}

TEST(StreamPlanTest, EveryWaitOrdersWhatElseWouldRace) {
  int64_t num_waits = 0;
  ForEachGraph([&](const StepAccesses& accesses, const StepGraph&,
                   const StreamPlan& plan, std::mt19937&) {
    MICA_EXPECT_OK(CheckHappensBefore(accesses, plan));
    for (size_t i = 0; i < plan.waits.size(); ++i) {
      StreamPlan without = plan;
      without.waits.erase(without.waits.begin() + static_cast<int64_t>(i));
      EXPECT_THAT(CheckHappensBefore(accesses, without),
                  StatusIs(absl::StatusCode::kInternal, HasSubstr("race")));
    }
    num_waits += static_cast<int64_t>(plan.waits.size());
  });
  EXPECT_GT(num_waits, kNumGraphs);
}

TEST(StreamPlanTest, RandomDelaysChangeNothing) {
  ForEachGraph([](const StepAccesses& accesses, const StepGraph& graph,
                  const StreamPlan& plan, std::mt19937& random) {
    const StreamPlan in_order = {
        .streams = std::vector<int32_t>(graph.num_steps(), 0)};
    EXPECT_EQ(SimulatedDevice(accesses, plan, random).Run(),
              SimulatedDevice(accesses, in_order, random).Run());
  });
}

TEST(HappensBeforeTest, RefusesWaitsThatCannotBe) {
  StepAccesses accesses;
  accesses.EndStep();
  accesses.EndStep();
  for (const Wait& wait :
       {Wait{.signal = 1, .waiter = 0}, Wait{.signal = 0, .waiter = 2},
        Wait{.signal = -1, .waiter = 1}}) {
    EXPECT_THAT(
        CheckHappensBefore(
            accesses, {.num_streams = 2, .streams = {0, 1}, .waits = {wait}}),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("wait")));
  }
}

}  // namespace
}  // namespace mica
