// Laws that hold for every Program. MICA_PROPERTY_SEED=7 repeats one seed,
// MICA_PROPERTY_SEEDS=5000 tries that many.

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analysis/plan/plan.h"
#include "analysis/plan/step_facts.h"
#include "analysis/streams/happens_before.h"
#include "executor/watch/poison.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "glog/logging.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/property/plan_checker.h"
#include "tests/property/random_program.h"
#include "tests/property/runnable.h"
#include "tests/property/seeds.h"

namespace mica {
namespace {

constexpr uint64_t kNumSeeds = 300;

// The plainest way to run: one reference kernel an op, no byte used twice.
const PlanOptions kPlain = {.fuse = false, .reuse_buffers = false};

template <typename T>
double LargestDifference(const Tensor& a, const Tensor& b) {
  const T* x = static_cast<const T*>(a.data());
  const T* y = static_cast<const T*>(b.data());
  double largest = 0;
  for (int64_t i = 0; i < a.type().num_elements(); ++i) {
    const double difference =
        std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    // NaN compares as too large.
    if (!(difference <= largest)) {
      largest = std::isnan(difference) ? INFINITY : difference;
    }
  }
  return largest;
}

void ExpectNear(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                absl::string_view what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    MICA_ASSERT_OK_AND_ASSIGN(const Tensor a, Tensor::CopyOf(got[i].view()));
    MICA_ASSERT_OK_AND_ASSIGN(const Tensor b, Tensor::CopyOf(want[i].view()));
    ASSERT_EQ(a.type(), b.type()) << what << " " << i;
    if (a.type().dtype == DType::kF64) {
      EXPECT_LE(LargestDifference<double>(a, b), 1e-9) << what << " " << i;
    } else {
      EXPECT_LE(LargestDifference<float>(a, b), 2e-5) << what << " " << i;
    }
  }
}

void ExpectNear(const Runnable& got, const Runnable& want) {
  ExpectNear(got.outputs, want.outputs, "output");
  ExpectNear(got.inputs, want.inputs, "input");
  ExpectNear(got.variables, want.variables, "variable");
}

TEST(PropertyTest, TextReadsBackAsTheSameProgram) {
  ForEachSeed(kNumSeeds, [](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    const std::string text = ToText(program);
    MICA_ASSERT_OK_AND_ASSIGN(Program again, ParseProgram(text, AllOps()));
    EXPECT_EQ(ToText(again), text);
  });
}

TEST(PropertyTest, EveryPlanComputesWhatTheReferenceDoes) {
  ForEachSeed(kNumSeeds, [](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    MICA_ASSERT_OK_AND_ASSIGN(const Runnable want,
                              PlanAndRun(program, ReferenceKernels(), kPlain));
    const std::vector<PlanOptions> all_options = {
        {.fuse = false},
        {.fuse = true},
        {.fuse = true, .lend_above_bytes = 0},
        {.frozen = true, .fuse = true},
        {.num_threads = 2, .frozen = true, .fuse = true}};
    for (const PlanOptions& options : all_options) {
      SCOPED_TRACE(absl::StrCat("fuse=", options.fuse,
                                " frozen=", options.frozen,
                                " lend_above=", options.lend_above_bytes,
                                " threads=", options.num_threads));
      MICA_ASSERT_OK_AND_ASSIGN(const Runnable got,
                                PlanAndRun(program, AllKernels(), options));
      ExpectNear(got, want);
    }
    if (testing::Test::HasFailure()) ADD_FAILURE() << ToText(program);
  });
}

TEST(PropertyTest, EveryStepReadsWhatItsOperandsHold) {
  ForEachSeed(kNumSeeds, [](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    const std::vector<PlanOptions> all_options = {
        {.fuse = false},
        {.frozen = true, .fuse = true},
        {.fuse = false, .lend_above_bytes = 0},
        {.fuse = true, .lend_above_bytes = 0}};
    for (const PlanOptions& options : all_options) {
      MICA_ASSERT_OK_AND_ASSIGN(
          const auto plan,
          Plan::Build(program, AllOps(), AllKernels(), options));
      EXPECT_THAT(CheckMemory(*plan), IsOk())
          << ToText(program) << plan->ToText();
      EXPECT_GE(plan->arena_bytes(), plan->live_set_bytes());
    }
  });
}

TEST(PropertyTest, StreamsChangeNoBit) {
  int num_plans_with_waits = 0;
  ForEachSeed(kNumSeeds, [&](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    for (const bool fuse : {false, true}) {
      const PlanOptions one = {.frozen = fuse, .fuse = fuse};
      PlanOptions many = one;
      many.num_streams = 2 + static_cast<int>(seed % 3);
      many.wait_nanoseconds = 0;
      MICA_ASSERT_OK_AND_ASSIGN(const Runnable want,
                                PlanAndRun(program, AllKernels(), one));
      MICA_ASSERT_OK_AND_ASSIGN(
          const auto plan, Plan::Build(program, AllOps(), AllKernels(), many));
      if (plan->streams().num_streams > 1) {
        ++num_plans_with_waits;
        MICA_EXPECT_OK(CheckHappensBefore(
            AccessesOf(*plan, 0, plan->num_compute()), plan->streams()));
      }
      MICA_ASSERT_OK_AND_ASSIGN(const Runnable got, MakeRunnable(plan));
      MICA_ASSERT_OK(got.job->Run());
      EXPECT_TRUE(SameBytes(got, want));
    }
  });
  EXPECT_GT(num_plans_with_waits, 0);
}

TEST(PropertyTest, AQueueChangesNoBit) {
  int num_plans_with_queues = 0;
  ForEachSeed(kNumSeeds, [&](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    for (const bool fuse : {false, true}) {
      const PlanOptions options = {
          .num_threads = 2 + static_cast<int>(seed % 3),
          .queue = true,
          .take_nanoseconds = 0,
          .frozen = fuse,
          .fuse = fuse};
      MICA_ASSERT_OK_AND_ASSIGN(
          const auto plan,
          Plan::Build(program, AllOps(), AllKernels(), options));
      EXPECT_THAT(CheckMemory(*plan), IsOk())
          << ToText(program) << plan->ToText();
      if (plan->queue().num_workers > 1) ++num_plans_with_queues;
      MICA_ASSERT_OK_AND_ASSIGN(
          const Runnable want,
          PlanAndRun(program, AllKernels(), {.frozen = fuse, .fuse = fuse}));
      MICA_ASSERT_OK_AND_ASSIGN(const Runnable got, MakeRunnable(plan));
      MICA_ASSERT_OK(got.job->Run());
      EXPECT_TRUE(SameBytes(got, want));
    }
  });
  EXPECT_GT(num_plans_with_queues, 0);
}

// Of each way to run: nothing reads what the plan says is dead.
TEST(PropertyTest, PoisonOfDeadSlicesChangesNoBit) {
  int64_t num_deaths = 0;
  ForEachSeed(kNumSeeds, [&](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    const std::vector<PlanOptions> all_options = {
        {.fuse = false},
        {.frozen = true, .fuse = true},
        {.fuse = false, .lend_above_bytes = 0},
        {.num_streams = 2, .wait_nanoseconds = 0},
        {.num_threads = 2, .queue = true, .take_nanoseconds = 0}};
    for (const PlanOptions& options : all_options) {
      MICA_ASSERT_OK_AND_ASSIGN(const Runnable want,
                                PlanAndRun(program, AllKernels(), options));
      MICA_ASSERT_OK_AND_ASSIGN(
          const auto plan,
          Plan::Build(program, AllOps(), AllKernels(), options));
      const auto poison = std::make_shared<Poison>(*plan);
      MICA_ASSERT_OK_AND_ASSIGN(const Runnable got,
                                MakeRunnable(plan, {.observers = {poison}}));
      MICA_ASSERT_OK(got.job->Run());
      num_deaths += poison->num_deaths();
      EXPECT_TRUE(SameBytes(got, want));
    }
  });
  EXPECT_GT(num_deaths, 0);
}

// Fails at one step.
class FailAt : public StepObserver {
 public:
  explicit FailAt(StepId step) : step_(step) {}
  absl::Status BeforeStep(StepId id, int) override {
    return id == step_ ? absl::DataLossError("injected") : absl::OkStatus();
  }

 private:
  const StepId step_;
};

TEST(PropertyTest, AnErrorAtAnyStepChangesNoVariable) {
  constexpr uint64_t kFewSeeds = 40;
  ForEachSeed(kFewSeeds, [](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    const std::vector<PlanOptions> all_options = {
        {},
        {.num_streams = 2, .wait_nanoseconds = 0},
        {.num_threads = 2, .queue = true, .take_nanoseconds = 0}};
    for (const PlanOptions& options : all_options) {
      MICA_ASSERT_OK_AND_ASSIGN(
          const auto plan,
          Plan::Build(program, AllOps(), AllKernels(), options));
      MICA_ASSERT_OK_AND_ASSIGN(const Runnable before, MakeRunnable(plan));
      for (StepId step = 0; step < plan->num_compute(); ++step) {
        MICA_ASSERT_OK_AND_ASSIGN(
            const Runnable got,
            MakeRunnable(plan,
                         {.observers = {std::make_shared<FailAt>(step)}}));
        EXPECT_THAT(got.job->Run(),
                    StatusIs(absl::StatusCode::kDataLoss,
                             testing::HasSubstr(plan->steps()[step].name)));
        EXPECT_TRUE(SameBytes(got.inputs, before.inputs));
        EXPECT_TRUE(SameBytes(got.variables, before.variables));
      }
    }
  });
}

TEST(PropertyTest, EqualProgramsGetEqualPlans) {
  ForEachSeed(kNumSeeds, [](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    MICA_ASSERT_OK_AND_ASSIGN(const Program again,
                              ParseProgram(ToText(program), AllOps()));
    MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                              Plan::Build(program, AllOps(), AllKernels(), {}));
    MICA_ASSERT_OK_AND_ASSIGN(const auto other,
                              Plan::Build(again, AllOps(), AllKernels(), {}));
    EXPECT_EQ(plan->ToText(), other->ToText());
  });
}

TEST(PropertyTest, ASharedPlanRunsAsAFreshOneBitForBit) {
  ForEachSeed(kNumSeeds, [](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                              Plan::Build(program, AllOps(), AllKernels(), {}));
    MICA_ASSERT_OK_AND_ASSIGN(const Runnable first, MakeRunnable(plan));
    MICA_ASSERT_OK_AND_ASSIGN(const Runnable second, MakeRunnable(plan));
    MICA_ASSERT_OK_AND_ASSIGN(const Runnable fresh,
                              PlanAndRun(program, AllKernels(), {}));
    MICA_ASSERT_OK(first.job->Run());
    MICA_ASSERT_OK(second.job->Run());
    for (const Runnable* shared : {&first, &second}) {
      EXPECT_TRUE(SameBytes(*shared, fresh));
    }
  });
}

// Fails while `is_failing` is set; else y = 0.
bool is_failing = false;

bool FailOnRequest(const void*, void* const*, LaunchContext& context) {
  return !is_failing || context.Fail(absl::InternalError("injected"));
}

Verdict PrepareFailing(const KernelRequest&) {
  return Prepared{.launch = FailOnRequest};
}

TEST(PropertyTest, AnErrorChangesNoVariableAndTheJobRunsAgain) {
  KernelRegistry kernels;
  kernels.Add("aten.tanh", {DType::kF32, DType::kF64}, KernelRank::kFast,
              {.name = "test.failing", .prepare = PrepareFailing});
  RegisterAllKernels(kernels);
  ForEachSeed(kNumSeeds, [&](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                              Plan::Build(program, AllOps(), kernels, {}));
    MICA_ASSERT_OK_AND_ASSIGN(const Runnable before, MakeRunnable(plan));
    MICA_ASSERT_OK_AND_ASSIGN(const Runnable runnable, MakeRunnable(plan));
    is_failing = true;
    const absl::Status status = runnable.job->Run();
    is_failing = false;
    if (status.ok()) return;  // No tanh in this one.
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kInternal,
                         testing::AllOf(testing::HasSubstr("aten.tanh"),
                                        testing::HasSubstr("random.py:"),
                                        testing::HasSubstr("injected"))));
    EXPECT_TRUE(SameBytes(runnable.inputs, before.inputs));
    EXPECT_TRUE(SameBytes(runnable.variables, before.variables));
    MICA_EXPECT_OK(runnable.job->Run());
  });
}

}  // namespace
}  // namespace mica
