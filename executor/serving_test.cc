// Several threads run Programs by one Executor.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "executor/executor.h"
#include "executor/tensors_testing.h"
#include "framework/base/test_matchers.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr char kLinear[] = R"(program @linear(%x: f32[n,64]) {
  %w = variable "w" : f32[64,64]
  %h = aten.mm(%x, %w) : f32[n,64]
  %y = aten.relu(%h) : f32[n,64]
  %z = aten.mm(%y, %w) : f32[n,64]
  return %z
}
)";
constexpr char kCountUp[] = R"(program @count(%x: f32[4]) {
  %w = variable "w" : f32[4]
  %s = aten.add.Tensor(%w, %x) : f32[4]
  update %w = %s
  return %s
}
)";
// Ends only if it is ended.
constexpr char kForever[] = R"(program @forever(%n: i64[]) {
  %zero = constant [0] : i64[]
  %r = mica.while([%zero], [%n]) : i64[]
    cond(%i: i64[], %n: i64[]) {
      %p = aten.lt.Tensor(%i, %n) : bool[]
      return %p
    }
    body(%i: i64[], %n: i64[]) {
      %next = aten.mul.Scalar(%i, 1) : i64[]
      return %next
    }
  return %r
}
)";
constexpr int kServedThreads = 6;

class ServingTest : public testing::Test {
 protected:
  std::unique_ptr<Executor> NewExecutor(const ExecutorLimits& limits = {},
                                        bool frozen = true) {
    auto executor =
        Executor::Create(Place(), AllOps(), AllKernels(), {.frozen = frozen},
                         /*plans=*/nullptr, nullptr, limits);
    EXPECT_THAT(executor, IsOk());
    return *std::move(executor);
  }
  // Runs kLinear on `rows` rows of `value`, whose results are all
  // 64 * 64 * value.
  absl::Status RunLinear(Executor& executor, int rows, float value) {
    std::vector<float> x(64 * rows, value);
    const auto results = executor.Run(linear_, {{"x", ViewOf(x, {rows, 64})}},
                                      {{"w", ViewOf(w_, {64, 64})}}, {});
    if (!results.ok()) return results.status();
    EXPECT_THAT(NumbersOf((*results)[0]), Each(64 * 64 * value));
    return absl::OkStatus();
  }
  // Calls `work(thread)` on so many threads at once.
  template <typename Work>
  static void OnThreads(int count, const Work& work) {
    std::vector<std::thread> threads;
    threads.reserve(count);
    for (int i = 0; i < count; ++i) threads.emplace_back([&, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
  }

  const std::shared_ptr<const Program> linear_ = ParseShared(kLinear);
  std::vector<float> w_ = std::vector<float>(64 * 64, 1);
};

TEST_F(ServingTest, RunsAtOnceShareWhatWasDecidedAndNothingElse) {
  const auto executor = NewExecutor();
  OnThreads(kServedThreads, [&](int thread) {
    for (int i = 0; i < 50; ++i) {
      const int rows = 1 + (thread + i) % 3;
      MICA_EXPECT_OK(RunLinear(*executor, rows, static_cast<float>(thread)));
    }
  });
  const ExecutorStats stats = executor->stats();
  EXPECT_EQ(stats.runs, 50 * kServedThreads);
  EXPECT_EQ(stats.failures, 0);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.prepared, 3);
  EXPECT_LE(stats.jobs, 3 * kServedThreads);
  EXPECT_GT(stats.run_nanoseconds, 0);
}

TEST_F(ServingTest, NoMoreRunsAtATimeThanTheLimit) {
  const auto executor = NewExecutor({.max_runs = 2});
  OnThreads(kServedThreads, [&](int thread) {
    for (int i = 0; i < 50; ++i) {
      MICA_EXPECT_OK(RunLinear(*executor, 2, static_cast<float>(thread)));
      EXPECT_LE(executor->stats().running, 2);
    }
  });
  EXPECT_LE(executor->stats().jobs, 2);
  EXPECT_EQ(executor->stats().runs, 50 * kServedThreads);
}

TEST_F(ServingTest, ArenasStayWithinTheirBound) {
  const auto probe = NewExecutor();
  MICA_ASSERT_OK(RunLinear(*probe, 300, 1));
  const int64_t bytes = probe->stats().arena_bytes;
  ASSERT_GT(bytes, 0);
  const auto executor = NewExecutor({.max_arena_bytes = bytes});
  OnThreads(kServedThreads, [&](int thread) {
    for (int i = 0; i < 20; ++i) {
      const int rows = i % 4 == 0 ? 300 : 100 + thread;
      MICA_EXPECT_OK(RunLinear(*executor, rows, static_cast<float>(thread)));
      EXPECT_LE(executor->stats().arena_bytes, bytes);
    }
  });
  EXPECT_THAT(RunLinear(*executor, 400, 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("max_arena_bytes is")));
  MICA_EXPECT_OK(RunLinear(*executor, 300, 1));
}

TEST_F(ServingTest, AProgramThatUpdatesVariablesRunsAlone) {
  const auto executor = NewExecutor({}, /*frozen=*/false);
  const auto program = ParseShared(kCountUp);
  std::vector<float> w(4, 0);
  OnThreads(kServedThreads, [&](int) {
    std::vector<float> one(4, 1);
    for (int i = 0; i < 200; ++i) {
      MICA_EXPECT_OK(executor
                         ->Run(program, {{"x", ViewOf(one, {4})}},
                               {{"w", ViewOf(w, {4})}}, {})
                         .status());
    }
  });
  EXPECT_THAT(w, Each(200 * kServedThreads));
}

TEST_F(ServingTest, AHandleEndsItsRunWheneverItIsCancelled) {
  const auto executor = NewExecutor();
  const auto program = ParseShared(kForever);
  for (int i = 0; i < 30; ++i) {
    RunHandle handle;
    std::thread canceller([&] {
      std::atomic<int> spins = 0;
      while (spins < i * 20000) ++spins;
      handle.Cancel();
    });
    int64_t n = 1;
    const auto results = executor->Run(
        program,
        {{"n", {.data = &n, .type = {.dtype = DType::kI64, .dims = {}}}}}, {},
        {}, &handle);
    canceller.join();
    EXPECT_THAT(results, StatusIs(absl::StatusCode::kCancelled,
                                  HasSubstr("the run was ended")));
  }
  EXPECT_EQ(executor->stats().failures, 30);
  EXPECT_EQ(executor->stats().running, 0);
}

TEST_F(ServingTest, WhatFailsLeavesNoTurnAndNoArenaBehind) {
  const auto executor = NewExecutor({.max_runs = 1});
  OnThreads(kServedThreads, [&](int thread) {
    std::vector<float> x(64 * 2, 1);
    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(executor->Run(linear_, {{"x", ViewOf(x, {2, 64})}}, {}, {}),
                  StatusIs(absl::StatusCode::kNotFound,
                           HasSubstr("variable \"w\" has no value")));
      EXPECT_THAT(executor->Run(linear_, {{"x", ViewOf(x, {64, 2})}}, {}, {}),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr("wants f32[n,64]")));
      MICA_EXPECT_OK(RunLinear(*executor, 2, static_cast<float>(thread)));
    }
  });
  const ExecutorStats stats = executor->stats();
  EXPECT_EQ(stats.failures, 40 * kServedThreads);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.jobs, 1);
}

TEST(ExecutorLimitsTest, MustMeanSomething) {
  EXPECT_THAT(Executor::Create(Place(), AllOps(), AllKernels(), {}, nullptr,
                               nullptr, {.max_prepared = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_prepared of 1 or more")));
}

}  // namespace
}  // namespace mica
