// What observers of a Job's steps see, and what errors at any step leave.

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "executor/binding/binding.h"
#include "executor/job/job.h"
#include "executor/watch/poison.h"
#include "executor/watch/stall_watch.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kBranches[] = R"(program @f(%x: f32[16,16]) {
  %v = variable "v" : f32[16,16]
  %a = aten.exp(%x) : f32[16,16]
  %b = aten.tanh(%a) : f32[16,16]
  %c = aten.sin(%x) : f32[16,16]
  %d = aten.cumsum(%c, 1) : f32[16,16]
  %e = aten.mul.Tensor(%d, %b) : f32[16,16]
  %y = aten.add.Tensor(%e, %a) : f32[16,16]
  %w = aten.add.Tensor(%v, %y) : f32[16,16]
  update %v = %w
  return %y
}
)";

// One after the other, on streams, from a queue.
const PlanOptions kModes[] = {
    {.fuse = false},
    {.num_streams = 2, .wait_nanoseconds = 0, .fuse = false},
    {.num_threads = 2, .queue = true, .take_nanoseconds = 0, .fuse = false}};

// A Job of kBranches with its tensors.
struct Runnable {
  std::vector<float> x = std::vector<float>(256), v = x, y = x;
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Job> job;
};

using MakeObserver = std::function<std::shared_ptr<StepObserver>(const Plan&)>;

std::unique_ptr<Runnable> Make(const PlanOptions& options,
                               const MakeObserver& observer = nullptr) {
  auto runnable = std::make_unique<Runnable>();
  for (size_t i = 0; i < 256; ++i) {
    runnable->x[i] = 0.01f * static_cast<float>(i);
  }
  auto program = ParseProgram(kBranches, AllOps());
  EXPECT_THAT(program, IsOk());
  auto plan = Plan::Build(*program, AllOps(), AllKernels(), options);
  EXPECT_THAT(plan, IsOk());
  runnable->plan = *plan;
  const TensorView view{.data = runnable->v.data(),
                        .type = {.dtype = DType::kF32, .dims = {16, 16}}};
  auto binding = Binding::Create(*plan, {view});
  EXPECT_THAT(binding, IsOk());
  JobOptions job_options;
  if (observer != nullptr) job_options.observers = {observer(**plan)};
  auto job = Job::Create(*binding, std::move(job_options));
  EXPECT_THAT(job, IsOk());
  runnable->job = *std::move(job);
  runnable->job->SetInput(0, runnable->x.data());
  runnable->job->SetOutput(0, runnable->y.data());
  return runnable;
}

// Fails at one step.
class FailStep : public StepObserver {
 public:
  StepId step = -1;
  absl::Status BeforeStep(StepId id, int) override {
    return id == step ? absl::DataLossError("injected") : absl::OkStatus();
  }
};

TEST(WatchTest, TheModesAreWhatTheySay) {
  EXPECT_EQ(Make(kModes[1])->plan->streams().num_streams, 2);
  EXPECT_EQ(Make(kModes[2])->plan->queue().num_workers, 2);
}

TEST(WatchTest, AnErrorAtAnyStepIsToldAndWritesNothing) {
  for (const PlanOptions& options : kModes) {
    const auto want = Make(options);
    MICA_ASSERT_OK(want->job->Run());
    auto fail = std::make_shared<FailStep>();
    const auto got = Make(options, [&](const Plan&) { return fail; });
    const std::vector<float> before = got->v;
    for (StepId step = 0; step < got->plan->num_compute(); ++step) {
      fail->step = step;
      EXPECT_THAT(got->job->Run(),
                  StatusIs(absl::StatusCode::kDataLoss,
                           AllOf(HasSubstr("injected"),
                                 HasSubstr(absl::StrCat("step ", step, ",")))));
      EXPECT_EQ(got->v, before);
      fail->step = -1;
      MICA_ASSERT_OK(got->job->Run());
      EXPECT_EQ(got->y, want->y);
      EXPECT_EQ(got->v, want->v);
      got->v = before;
      got->job->SetVariable(0, got->v.data());
    }
  }
}

TEST(WatchTest, PoisonOfDeadSlicesChangesNoBit) {
  for (const PlanOptions& options : kModes) {
    const auto want = Make(options);
    MICA_ASSERT_OK(want->job->Run());
    std::shared_ptr<Poison> poison;
    const auto got = Make(options, [&](const Plan& plan) {
      return poison = std::make_shared<Poison>(plan);
    });
    for (int i = 0; i < 20; ++i) {
      got->v.assign(256, 0);
      MICA_ASSERT_OK(got->job->Run());
      EXPECT_EQ(got->y, want->y);
      EXPECT_EQ(got->v, want->v);
    }
    EXPECT_GT(poison->num_deaths(), 0);
  }
}

// The slice lives until %y reads it; here it dies one step too early.
TEST(WatchTest, ALifetimeThatIsTooShortIsFound) {
  const auto want = Make({.fuse = false});
  MICA_ASSERT_OK(want->job->Run());
  int num_found = 0;
  for (size_t i = 0; i < want->plan->slices().size(); ++i) {
    const auto got = Make({.fuse = false}, [&](const Plan& plan) {
      std::vector<PlanSlice> slices(plan.slices().begin(), plan.slices().end());
      slices[i].last = std::max(slices[i].last - 1, slices[i].first);
      return std::make_shared<Poison>(plan, slices);
    });
    MICA_ASSERT_OK(got->job->Run());
    const PlanSlice& slice = want->plan->slices()[i];
    const bool differs = std::memcmp(got->y.data(), want->y.data(), 1024) ||
                         std::memcmp(got->v.data(), want->v.data(), 1024);
    EXPECT_EQ(differs, slice.last > slice.first) << "slice " << i;
    num_found += differs;
  }
  EXPECT_GT(num_found, 0);
}

// Holds a step until it is let go.
class HoldAt : public StepObserver {
 public:
  explicit HoldAt(StepId step) : step_(step) {}
  absl::Status BeforeStep(StepId id, int) override {
    if (id != step_) return absl::OkStatus();
    std::unique_lock lock(mutex_);
    is_held_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_free_; });
    return absl::OkStatus();
  }
  void WaitUntilHeld() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_held_; });
  }
  void LetGo() {
    const std::lock_guard lock(mutex_);
    is_free_ = true;
    changed_.notify_all();
  }

 private:
  const StepId step_;
  std::mutex mutex_;
  bool is_held_ = false;
  bool is_free_ = false;
  std::condition_variable changed_;
};

class Both : public StepObserver {
 public:
  Both(std::shared_ptr<StepObserver> a, std::shared_ptr<StepObserver> b)
      : a_(std::move(a)), b_(std::move(b)) {}
  void BeforeRun(const Job& job) override {
    a_->BeforeRun(job);
    b_->BeforeRun(job);
  }
  void AfterRun(const absl::Status& status) override {
    a_->AfterRun(status);
    b_->AfterRun(status);
  }
  absl::Status BeforeStep(StepId step, int worker) override {
    EXPECT_THAT(a_->BeforeStep(step, worker), IsOk());
    return b_->BeforeStep(step, worker);
  }
  void AfterStep(StepId step, int worker) override {
    a_->AfterStep(step, worker);
    b_->AfterStep(step, worker);
  }

 private:
  const std::shared_ptr<StepObserver> a_, b_;
};

TEST(WatchTest, AHangIsReportedWithWhatWaits) {
  for (const PlanOptions& options : kModes) {
    auto hold = std::make_shared<HoldAt>(0);
    std::string report;
    const auto got = Make(options, [&](const Plan& plan) {
      auto watch = std::make_shared<StallWatch>(
          plan,
          StallWatchOptions{.patience = absl::Milliseconds(20),
                            .report = [&](const std::string& text) {
                              // Else it hasn't got there yet.
                              if (!absl::StrContains(text, "running: step 0"))
                                return;
                              report = text;
                              hold->LetGo();
                            }});
      return std::make_shared<Both>(watch, hold);
    });
    MICA_ASSERT_OK(got->job->Run());
    EXPECT_THAT(report, AllOf(HasSubstr("running: step 0, aten."),
                              HasSubstr("waiting: "), HasSubstr(" for 0")));
  }
}

TEST(WatchTest, ACancelledRunEndsAndWritesNothing) {
  for (const PlanOptions& options : kModes) {
    auto hold = std::make_shared<HoldAt>(2);
    const auto got = Make(options, [&](const Plan&) { return hold; });
    got->job->Cancel();  // Nothing runs: without effect.
    const std::vector<float> before = got->v;
    std::thread canceller([&] {
      hold->WaitUntilHeld();
      got->job->Cancel();
      hold->LetGo();
    });
    EXPECT_THAT(got->job->Run(),
                StatusIs(absl::StatusCode::kCancelled, testing::_));
    canceller.join();
    EXPECT_EQ(got->v, before);
    MICA_EXPECT_OK(got->job->Run());
  }
}

}  // namespace
}  // namespace mica
