// Runs that write parts of variables where they are, and are taken back.

#include "executor/job/undo.h"

#include <memory>
#include <numeric>
#include <vector>

#include "executor/job/job.h"
#include "executor/job/step_observer.h"
#include "executor/tensors_testing.h"
#include "framework/base/test_matchers.h"
#include "glog/logging.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

// Two states; one is written twice, in parts of which the second overlaps the
// first, and read between; an index repeats itself.
constexpr char kWrites[] = R"(program @p(%x: f32[2,16], %at: i64[2]) {
  %a = variable "a" : f32[64,16]
  %b = variable "b" : f32[64,16]
  %old = aten.index_select(%a, 0, %at) : f32[2,16]
  %y = aten.add.Tensor(%x, %old) : f32[2,16]
  %a1 = aten.index_copy(%a, 0, %at, %y) : f32[64,16]
  %row = aten.slice.Tensor(%a1, dim=0, start=2, end=4) : f32[2,16]
  %z = aten.exp(%row) : f32[2,16]
  %a2 = mica.scatter_view(%a1, %z, [2,16], [16,1], 32) : f32[64,16]
  %b1 = aten.index_add(%b, 0, %at, %z) : f32[64,16]
  %both = aten.repeat(%x, [2,2]) : f32[4,32]
  %columns = aten.view(%both, [16,8]) : f32[16,8]
  %p = aten.mm(%b1, %columns) : f32[64,8]
  %sum = aten.sum(%p) : f32[]
  update %a = %a2
  update %b = %b1
  return %sum
}
)";

// Fails at one step.
class FailBefore : public StepObserver {
 public:
  absl::Status BeforeStep(StepId step, int worker) override {
    return step == at ? absl::ResourceExhaustedError("planted")
                      : absl::OkStatus();
  }
  StepId at = -1;
};

struct TwoStates {
  std::vector<float> a = std::vector<float>(64 * 16);
  std::vector<float> b = std::vector<float>(64 * 16, 0.5);
  std::vector<float> x = std::vector<float>(32, 0.25);
  std::vector<int64_t> at = {3, 3};
  float sum = 0;
  TwoStates() { std::iota(a.begin(), a.end(), -500); }
};

class UndoTest : public testing::TestWithParam<PlanOptions> {
 protected:
  std::unique_ptr<Job> MakeJob(PlanOptions options, TwoStates& world) {
    auto plan =
        Plan::Build(*ParseShared(kWrites), AllOps(), AllKernels(), options);
    CHECK(plan.ok()) << plan.status();
    auto binding = Binding::Create(
        *plan, {ViewOf(world.a, {64, 16}), ViewOf(world.b, {64, 16})});
    CHECK(binding.ok()) << binding.status();
    auto job = Job::Create(*std::move(binding), {.observers = {fail_}});
    CHECK(job.ok()) << job.status();
    (*job)->SetInput(0, world.x.data());
    (*job)->SetInput(1, world.at.data());
    (*job)->SetOutput(0, &world.sum);
    return *std::move(job);
  }

  std::shared_ptr<FailBefore> fail_ = std::make_shared<FailBefore>();
};

TEST_P(UndoTest, ARunThatFailsAnywhereLeavesAllAsItWas) {
  TwoStates world;
  const TwoStates before = world;
  const auto job = MakeJob(GetParam(), world);
  ASSERT_EQ(job->plan().undo().size(), 3u);
  for (fail_->at = 0; fail_->at < job->plan().num_compute(); ++fail_->at) {
    EXPECT_THAT(job->Run(),
                StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
    EXPECT_EQ(world.a, before.a) << "step " << fail_->at;
    EXPECT_EQ(world.b, before.b) << "step " << fail_->at;
  }
}

TEST_P(UndoTest, SoDoesOneThatIsDiscarded) {
  TwoStates world;
  const TwoStates before = world;
  const auto job = MakeJob(GetParam(), world);
  MICA_ASSERT_OK(job->Compute());
  EXPECT_NE(world.a, before.a);
  MICA_ASSERT_OK(job->Discard());
  EXPECT_EQ(world.a, before.a);
  EXPECT_EQ(world.b, before.b);
}

TEST_P(UndoTest, ARunThatSucceedsGivesWhatOneAsideDoes) {
  TwoStates world, other;
  const auto job = MakeJob(GetParam(), world);
  const auto aside = MakeJob({}, other);
  EXPECT_TRUE(aside->plan().undo().empty());
  for (int i = 0; i < 3; ++i) {
    MICA_ASSERT_OK(job->Run());
    MICA_ASSERT_OK(aside->Run());
    EXPECT_EQ(world.a, other.a);
    EXPECT_EQ(world.b, other.b);
    EXPECT_EQ(world.sum, other.sum);
    // Nothing is left to be taken back.
    MICA_ASSERT_OK(job->Discard());
    EXPECT_EQ(world.a, other.a);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, UndoTest,
                         testing::Values(PlanOptions{.write_parts = true},
                                         PlanOptions{.num_streams = 2,
                                                     .write_parts = true},
                                         PlanOptions{.num_threads = 2,
                                                     .queue = true,
                                                     .take_nanoseconds = 0,
                                                     .write_parts = true}));

}  // namespace
}  // namespace mica
