#include "executor/job/queue_run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>
#include <vector>

#include "analysis/streams/hazards.h"
#include "framework/base/test_matchers.h"

namespace mica {
namespace {

// Each step after some of the eight before it.
StepGraph RandomGraph(int num_steps, std::mt19937& random) {
  StepGraph graph;
  for (int step = 0; step < num_steps; ++step) {
    std::vector<int32_t> before;
    for (int other = std::max(step - 8, 0); other < step; ++other) {
      if (random() % 4 == 0) before.push_back(other);
    }
    graph.AddStep(std::move(before));
  }
  return graph;
}

QueuePlan PlanOf(const StepGraph& graph, QueueOptions options) {
  options.num_workers = 3;
  return PlanQueue(graph, std::vector<double>(graph.num_steps(), 1), options);
}

class QueueRunTest : public testing::TestWithParam<int> {
 protected:
  std::shared_ptr<Helpers> helpers_ = std::make_shared<Helpers>(GetParam());
  Outcome outcome_;
};

INSTANTIATE_TEST_SUITE_P(Helpers, QueueRunTest, testing::Values(0, 1, 3));

TEST_P(QueueRunTest, EachStepRunsOnceAfterThoseThatItWaitsFor) {
  std::mt19937 random(7);
  for (const int num_steps : {1, 2, 50, 300}) {
    const StepGraph graph = RandomGraph(num_steps, random);
    const QueuePlan plan = PlanOf(graph, {});
    QueueRun run(plan, helpers_);
    // Not atomic: what a step reads must be in order with its writing.
    std::vector<int> ended(num_steps, 0);
    for (int round = 1; round <= 20; ++round) {
      MICA_ASSERT_OK(run.Run(
          [&](StepId step, int) {
            for (int32_t other : graph.before(step)) {
              EXPECT_EQ(ended[other], round);
            }
            ++ended[step];
            return absl::OkStatus();
          },
          outcome_));
      EXPECT_EQ(ended, std::vector<int>(num_steps, round));
    }
  }
}

TEST_P(QueueRunTest, EachPieceRunsOnce) {
  StepGraph graph;
  for (int step = 0; step < 40; ++step) graph.AddStep({});
  const QueuePlan plan = PlanOf(graph, {});
  QueueRun run(plan, helpers_);
  std::vector<std::vector<int>> pieces(40, std::vector<int>(9, 0));
  for (int round = 1; round <= 50; ++round) {
    MICA_ASSERT_OK(run.Run(
        [&](StepId step, int) {
          cpu::CurrentTeam()->Run(
              9,
              [](const void* state, int piece) {
                auto& counts =
                    *static_cast<std::vector<int>*>(const_cast<void*>(state));
                // A piece that asks for more gets them on its own thread.
                cpu::CurrentTeam()->Run(
                    1,
                    [](const void* count, int) {
                      ++*static_cast<int*>(const_cast<void*>(count));
                    },
                    &counts[piece]);
              },
              &pieces[step]);
          return absl::OkStatus();
        },
        outcome_));
  }
  for (const auto& counts : pieces) EXPECT_EQ(counts, std::vector<int>(9, 50));
}

TEST_P(QueueRunTest, TheFirstErrorEndsItAndItRunsAgain) {
  std::mt19937 random(3);
  const StepGraph graph = RandomGraph(60, random);
  const QueuePlan plan = PlanOf(graph, {});
  QueueRun run(plan, helpers_);
  for (int failing = 0; failing < 60; ++failing) {
    std::atomic<int> num_started = 0;
    EXPECT_THAT(run.Run(
                    [&](StepId step, int) {
                      ++num_started;
                      return step == failing ? absl::InternalError("injected")
                                             : absl::OkStatus();
                    },
                    outcome_),
                StatusIs(absl::StatusCode::kInternal, testing::_));
    EXPECT_LE(num_started, 60);
    outcome_.Reset();
    num_started = 0;
    MICA_EXPECT_OK(run.Run(
        [&](StepId, int) {
          ++num_started;
          return absl::OkStatus();
        },
        outcome_));
    EXPECT_EQ(num_started, 60);
  }
}

TEST_P(QueueRunTest, EndsWhenAnotherThreadFailsTheOutcome) {
  StepGraph graph;
  for (int step = 0; step < 50; ++step) {
    graph.AddStep(step == 0 ? std::vector<int32_t>()
                            : std::vector<int32_t>{step - 1});
  }
  const QueuePlan plan = PlanOf(graph, {});
  QueueRun run(plan, helpers_);
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> has_started = false;
    std::atomic<int> num_started = 0;
    std::thread canceller([&] {
      has_started.wait(false);
      outcome_.Fail(absl::CancelledError("the run was ended"));
    });
    const absl::Status status = run.Run(
        [&](StepId step, int) {
          ++num_started;
          has_started = true;
          has_started.notify_all();
          while (step == 10 && !outcome_.has_failed())
            std::this_thread::yield();
          return absl::OkStatus();
        },
        outcome_);
    canceller.join();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled, testing::_));
    EXPECT_LE(num_started, 11);
    outcome_.Reset();
  }
}

TEST_P(QueueRunTest, SomeStepsAreForTheCallerAndSomeRunAlone) {
  std::mt19937 random(5);
  const StepGraph graph = RandomGraph(80, random);
  QueueOptions options;
  for (int step = 0; step < 80; ++step) {
    options.is_alone.push_back(step % 16 == 5);
    options.is_on_caller.push_back(step % 4 == 1);
  }
  const QueuePlan plan = PlanOf(graph, options);
  QueueRun run(plan, helpers_);
  std::atomic<int> num_running = 0;
  const std::thread::id caller = std::this_thread::get_id();
  for (int round = 0; round < 20; ++round) {
    MICA_ASSERT_OK(run.Run(
        [&](StepId step, int worker) {
          const int running = ++num_running;
          if (options.is_alone[step]) {
            EXPECT_EQ(running, 1);
          }
          if (options.is_on_caller[step]) {
            EXPECT_EQ(std::this_thread::get_id(), caller);
            EXPECT_EQ(worker, 0);
          }
          if (options.is_alone[step]) {
            EXPECT_EQ(num_running, 1);
          }
          --num_running;
          return absl::OkStatus();
        },
        outcome_));
  }
}

TEST(HelpersTest, HelpOneCallerAtATime) {
  Helpers helpers(2);
  std::atomic<int> num_done = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<int> left = 20;
        helpers.Run([&](int) {
          while (left.fetch_sub(1) > 0) ++num_done;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(num_done, 4 * 500 * 20);
}

TEST(HelpersTest, AForkedCallerWorksAlone) {
  Helpers helpers(2);
  helpers.Run([](int) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int num_calls = 0;
    helpers.Run([&](int worker) { num_calls += worker == 0 ? 1 : 100; });
    _exit(num_calls == 1 ? 0 : 1);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(state, 0);
}

}  // namespace
}  // namespace mica
