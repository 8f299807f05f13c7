// Branches and loops, made at random, against an interpreter.

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/passes/check_types.h"
#include "analysis/plan/control_plan.h"
#include "analysis/plan/plan.h"
#include "analysis/plan/step_facts.h"
#include "analysis/streams/happens_before.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/content.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/property/equal_plans.h"
#include "tests/property/interpreter.h"
#include "tests/property/plan_checker.h"
#include "tests/property/random_control.h"
#include "tests/property/runnable.h"
#include "tests/property/seeds.h"

namespace mica {
namespace {

constexpr uint64_t kNumControlSeeds = 200;

void ExpectNear(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    MICA_ASSERT_OK_AND_ASSIGN(const Tensor dense,
                              Tensor::CopyOf(got[i].view()));
    ASSERT_EQ(dense.type(), want[i].type());
    const auto* a = static_cast<const float*>(dense.data());
    const auto* b = static_cast<const float*>(want[i].data());
    for (int64_t e = 0; e < dense.type().num_elements(); ++e) {
      EXPECT_LE(std::fabs(a[e] - b[e]), tolerance)
          << "output " << i << ", element " << e << ": " << a[e] << " for "
          << b[e];
    }
  }
}

TEST(ControlPropertyTest, TextReadsBackAsTheSameProgram) {
  ForEachSeed(kNumControlSeeds, [](uint64_t seed) {
    const Program program = RandomControlProgram(seed, AllOps());
    const std::string text = ToText(program);
    MICA_ASSERT_OK_AND_ASSIGN(const Program again,
                              ParseProgram(text, AllOps()));
    EXPECT_EQ(ToText(again), text);
    EXPECT_EQ(ContentOf(again), ContentOf(program));
  });
}

TEST(ControlPropertyTest, EveryPlanComputesWhatTheInterpreterDoes) {
  int num_controls = 0, num_nested = 0;
  ForEachSeed(kNumControlSeeds, [&](uint64_t seed) {
    const Program program = RandomControlProgram(seed, AllOps());
    num_controls += program.depth() > 0;
    num_nested += program.depth() > 1;
    struct Way {
      const KernelRegistry& kernels;
      PlanOptions options;
      float tolerance;
    };
    const Way ways[] = {
        {ReferenceKernels(), {.fuse = false, .reuse_buffers = false}, 0},
        {ReferenceKernels(), {.fuse = false}, 0},
        {AllKernels(), {.fuse = false}, 2e-5},
        {AllKernels(), {.fuse = true}, 2e-5},
        {AllKernels(), {.frozen = true, .lend_above_bytes = 0}, 2e-5},
        {AllKernels(), {.num_streams = 3, .wait_nanoseconds = 0}, 2e-5}};
    for (const Way& way : ways) {
      MICA_ASSERT_OK_AND_ASSIGN(
          const auto plan,
          Plan::Build(program, AllOps(), way.kernels, way.options));
      MICA_EXPECT_OK(CheckMemory(*plan));
      if (plan->streams().num_streams > 1) {
        MICA_EXPECT_OK(CheckHappensBefore(
            AccessesOf(*plan, 0, plan->num_compute()), plan->streams()));
      }
      MICA_ASSERT_OK_AND_ASSIGN(Runnable run, MakeRunnable(plan));
      MICA_ASSERT_OK_AND_ASSIGN(
          const std::vector<Tensor> want,
          Interpret(program, run.inputs, ReferenceKernels()));
      for (int round = 0; round < 2; ++round) {
        MICA_ASSERT_OK(run.job->Run());
        ExpectNear(run.outputs, want, way.tolerance);
      }
    }
    if (testing::Test::HasFailure()) ADD_FAILURE() << ToText(program);
  });
  RecordProperty("with_branches_or_loops", num_controls);
  RecordProperty("nested", num_nested);
}

// No two of a body's values that are alive at once share a byte, in any body.
absl::Status CheckBodies(const Plan& plan) {
  for (const Step& step : plan.steps()) {
    if (step.control == nullptr) continue;
    for (const auto& body : step.control->bodies) {
      absl::Status status = CheckMemory(*body);
      status.Update(CheckBodies(*body));
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

TEST(ControlPropertyTest, EveryStepOfABodyReadsWhatItsOperandsHold) {
  ForEachSeed(kNumControlSeeds, [](uint64_t seed) {
    const Program program = RandomControlProgram(seed, AllOps());
    for (const int64_t lend_above : {int64_t{0}, int64_t{1} << 20}) {
      MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                                Plan::Build(program, AllOps(), AllKernels(),
                                            {.lend_above_bytes = lend_above}));
      EXPECT_THAT(CheckBodies(*plan), IsOk())
          << ToText(program) << plan->ToText();
    }
  });
}

TEST(ControlPropertyTest, APlanFromBytesIsTheSame) {
  ForEachSeed(kNumControlSeeds, [](uint64_t seed) {
    const Program program = RandomControlProgram(seed, AllOps());
    const PlanOptions options;
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto plan, Plan::Build(program, AllOps(), AllKernels(), options));
    MICA_ASSERT_OK_AND_ASSIGN(const auto again,
                              ThroughBytes(*plan, program, options));
    EXPECT_EQ(again->ToText(), plan->ToText());
  });
}

TEST(ControlPropertyTest, JobsAtOnceShareAPlan) {
  ForEachSeed(kNumControlSeeds, [](uint64_t seed) {
    if (seed % 10 != 0) return;
    const Program program = RandomControlProgram(seed, AllOps());
    MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                              Plan::Build(program, AllOps(), AllKernels(), {}));
    std::vector<Runnable> runs;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      MICA_ASSERT_OK_AND_ASSIGN(Runnable run, MakeRunnable(plan));
      runs.push_back(std::move(run));
    }
    for (Runnable& run : runs) {
      threads.emplace_back([&run] {
        for (int i = 0; i < 20; ++i) ASSERT_THAT(run.job->Run(), IsOk());
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Runnable& run : runs) EXPECT_TRUE(SameBytes(run, runs[0]));
  });
}

}  // namespace
}  // namespace mica
