// What a Plan asks of CUDA's driver, by a driver that runs nothing.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/plan/plan.h"
#include "analysis/plan/step_facts.h"
#include "analysis/streams/hazards.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/kernels.h"
#include "ops/all.h"
#include "tests/devices/fake_driver.h"
#include "tests/property/random_program.h"
#include "tests/property/runnable.h"
#include "tests/property/seeds.h"

namespace mica {
namespace {

using Kind = FakeCall::Kind;
using testing::HasSubstr;

absl::StatusOr<std::string> CompileNothing(const std::string& source, int) {
  return source;
}

const KernelRegistry& Kernels() {
  static const auto& kernels =
      *cuda::MakeKernels({.arch = 90, .compile = CompileNothing}).release();
  return kernels;
}

absl::StatusOr<std::shared_ptr<const Plan>> PlanFor(const Program& program,
                                                    int num_streams) {
  return Plan::Build(program, AllOps(), Kernels(),
                     {.num_streams = num_streams, .wait_nanoseconds = 1});
}

// Products go through a library that isn't there.
bool HasProducts(const Plan& plan) {
  for (const Step& step : plan.steps()) {
    if (step.op < 0) continue;
    if (plan.op(step)->def->is_contraction()) return true;
    if (step.name == "mica.linear") return true;
  }
  return false;
}

// How many calls each step queues.
std::vector<int> CallsOf(const Plan& plan, Device& device, FakeDriver& fake) {
  const auto stream = device.CreateStream();
  EXPECT_THAT(stream, IsOk());
  std::vector<int> counts;
  for (const Step& step : plan.steps()) {
    fake.calls().clear();
    std::vector<void*> args(step.num_args, reinterpret_cast<void*>(512));
    MICA_EXPECT_OK(device.Launch(
        {step.prepared->launch, step.prepared->state.get(), args}, *stream));
    counts.push_back(static_cast<int>(fake.calls().size()));
  }
  device.DestroyStream(*stream);
  fake.calls().clear();
  return counts;
}

// Follows what was queued: on which stream, and which events it waits for.
void ExpectOrdered(const Plan& plan, const std::vector<int>& counts,
                   const std::vector<FakeCall>& calls) {
  const StepGraph graph = FindHazards(AccessesOf(plan, 0, plan.num_compute()));
  std::map<uintptr_t, std::set<int>> of_stream, of_event;
  size_t at = 0;
  for (StepId step = 0; step < plan.num_compute(); ++step) {
    for (int left = counts[step]; left > 0 && at < calls.size(); ++at) {
      const FakeCall& call = calls[at];
      std::set<int>& known = of_stream[call.stream];
      if (call.kind == Kind::kRecord) {
        of_event[call.event] = known;
      } else if (call.kind == Kind::kWait) {
        known.insert(of_event[call.event].begin(), of_event[call.event].end());
      } else {
        for (int32_t before : graph.before(step)) {
          EXPECT_TRUE(known.contains(before) || counts[before] == 0)
              << plan.steps()[step].name << ", step " << step
              << ", doesn't wait for step " << before;
        }
        if (--left == 0) known.insert(step);
      }
    }
  }
}

TEST(CudaPlanTest, WaitsOrderAllThatNeedsOrder) {
  int num_tried = 0, num_parallel = 0;
  ForEachSeed(400, [&](uint64_t seed) {
    const auto plan =
        PlanFor(RandomProgram(seed, AllOps()), 1 + static_cast<int>(seed) % 8);
    if (absl::IsNotFound(plan.status())) return;
    ASSERT_THAT(plan, IsOk());
    if (HasProducts(**plan)) return;
    ++num_tried;
    num_parallel += (*plan)->streams().num_streams > 1;
    FakeDriver fake;
    {
      MICA_ASSERT_OK_AND_ASSIGN(std::shared_ptr<Device> device,
                                cuda::CudaDevice::Create(fake.table(), 0));
      const std::vector<int> counts = CallsOf(**plan, *device, fake);
      MICA_ASSERT_OK_AND_ASSIGN(const Runnable runnable,
                                MakeRunnable(*plan, {}, device));
      fake.calls().clear();
      MICA_ASSERT_OK(runnable.job->Compute());
      ExpectOrdered(**plan, counts, fake.calls());
      for (int i = 0; i < 2; ++i) {
        fake.calls().clear();
        MICA_ASSERT_OK(runnable.job->Compute());
      }
      ASSERT_EQ(fake.calls().size(), 1);
      EXPECT_EQ(fake.calls()[0].kind, Kind::kGraph);
    }
    EXPECT_EQ(fake.num_alive(), 0);
    EXPECT_EQ(fake.memory_bytes(), 0);
  });
  EXPECT_GT(num_tried, 20);
  EXPECT_GT(num_parallel, 5);
}

constexpr char kTwoBranches[] = R"(program @branches(%x: f32[8,8]) {
  %w = variable "w" : f32[8,8]
  %a = aten.exp(%x) : f32[8,8]
  %b = aten.sum.dim_IntList(%w, [0]) : f32[8]
  %c = aten.tanh(%a) : f32[8,8]
  %d = aten.exp(%b) : f32[8]
  %y = aten.add.Tensor(%c, %d) : f32[8,8]
  update "w" = %y
  return %y
}
)";

// Makes a device and a Job, and runs it until it is a graph. The call that was
// to fail was made if `fake` has counted so many by then.
absl::Status RunBranches(const Plan& plan, FakeDriver& fake,
                         int64_t* num_calls) {
  MICA_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                        cuda::CudaDevice::Create(fake.table(), 0));
  const std::shared_ptr<const Plan> shared(std::shared_ptr<const Plan>(),
                                           &plan);
  MICA_ASSIGN_OR_RETURN(const Runnable runnable,
                        MakeRunnable(shared, {}, device));
  absl::Status first;
  for (int i = 0; i < 3; ++i) first.Update(runnable.job->Run());
  *num_calls = fake.num_calls();
  // The Job goes on behind an error.
  fake.FailAt(-1, 0);
  MICA_EXPECT_OK(runnable.job->Run());
  return first;
}

TEST(CudaPlanTest, EachErrorOfTheDriverIsAStatusAndNothingIsLost) {
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(kTwoBranches, AllOps()));
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, PlanFor(program, 2));
  int64_t num_calls = 1, num_errors = 0;
  for (int64_t call = 0; call < num_calls; ++call) {
    SCOPED_TRACE(absl::StrCat("call ", call));
    num_calls = INT64_MAX;
    FakeDriver fake;
    const cuda::Result result = call % 2 == 0 ? 700 : cuda::kOutOfMemory;
    fake.FailAt(call, result);
    const absl::Status status = RunBranches(*plan, fake, &num_calls);
    // Those that only give back what isn't needed any more go on.
    if (!status.ok()) {
      ++num_errors;
      EXPECT_THAT(std::string(status.message()),
                  testing::AnyOf(HasSubstr("CUDA's driver gave error"),
                                 HasSubstr("no memory on cuda:0")));
    }
    EXPECT_EQ(fake.num_alive(), 0);
  }
  EXPECT_GT(num_errors, 50);
}

TEST(CudaPlanTest, AStepThatCannotBeQueuedIsNamed) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const Program program,
      ParseProgram("program @one(%x: f32[8]) {\n"
                   "  %y = aten.exp(%x) : f32[8] @ \"model.py\":7\n"
                   "  return %y\n}\n",
                   AllOps()));
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, PlanFor(program, 1));
  FakeDriver fake;
  MICA_ASSERT_OK_AND_ASSIGN(std::shared_ptr<Device> device,
                            cuda::CudaDevice::Create(fake.table(), 0));
  MICA_ASSERT_OK_AND_ASSIGN(const Runnable runnable,
                            MakeRunnable(plan, {}, device));
  MICA_ASSERT_OK(runnable.job->Run());
  fake.FailAt(1, 719);  // Behind what makes the context current.
  EXPECT_THAT(
      std::string(runnable.job->Run().message()),
      testing::AnyOf(HasSubstr("aten.exp (model.py:7)"), HasSubstr("cuda:0")));
}

TEST(CudaPlanTest, SaysWhichLibraryIsMissing) {
  const auto driver = cuda::FindDriver();
  if (driver.ok()) return;  // There is a GPU.
  EXPECT_THAT(driver.status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("CUDA's driver was not found: wants "
                                 "libcuda.so.1 or libcuda.so")));
}

}  // namespace
}  // namespace mica
