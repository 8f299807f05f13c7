#include "executor/segment_run.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "analysis/plan/plan_cache.h"
#include "executor/job/step_observer.h"
#include "executor/tensors_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

const int kMostSizes = ExecutorLimits().max_prepared;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The rows of x whose sum is above 0, doubled; how many there are so far.
constexpr char kRowsAboveZero[] = R"(program @rows(%x: f32[batch,2]) {
  %calls = variable "calls" : f32[]
  %scale = constant [2.0] : f32[]
  %double = aten.mul.Tensor(%x, %scale) : f32[batch,2]
  %sum = aten.sum.dim_IntList(%x, [1]) : f32[batch]
  %mask = aten.gt.Scalar(%sum, 0) : bool[batch]
  %at = aten.nonzero(%mask) : i64[n,1]
  %index = aten.select.int(%at, 1, 0) : i64[n]
  %chosen = aten.index_select(%double, 0, %index) : f32[n,2]
  %more = aten.add.Scalar(%calls, 1) : f32[]
  update %calls = %more
  return %chosen, %at
}
)";

// Two sizes that depend on data, the second on what the first has chosen.
constexpr char kTwice[] = R"(program @twice(%x: f32[batch]) {
  %positive = aten.gt.Scalar(%x, 0) : bool[batch]
  %a = aten.masked_select(%x, %positive) : f32[n]
  %large = aten.gt.Scalar(%a, 10) : bool[n]
  %b = aten.masked_select(%a, %large) : f32[m]
  %half = aten.mul.Scalar(%b, 0.5) : f32[m]
  return %half, %a
}
)";

// As many above 0 as there are below.
constexpr char kSameCount[] = R"(program @same(%x: f32[batch]) {
  %positive = aten.gt.Scalar(%x, 0) : bool[batch]
  %negative = aten.lt.Scalar(%x, 0) : bool[batch]
  %a = aten.masked_select(%x, %positive) : f32[n]
  %b = aten.masked_select(%x, %negative) : f32[n]
  %sum = aten.add.Tensor(%a, %b) : f32[n]
  return %sum
}
)";

// Three segments. Each finds what an update takes: of two variables, of the
// input, of what the draw was.
constexpr char kUpdates[] = R"(program @updates(%x: f32[batch]) {
  opaque "test::draw(Tensor self) -> Tensor"
  %calls = variable "calls" : f32[]
  %sum = variable "sum" : f32[]
  %drawn = variable "drawn" : f32[]
  %d = test.draw(%drawn) : f32[]
  %more = aten.add.Scalar(%calls, 1) : f32[]
  %positive = aten.gt.Scalar(%x, 0) : bool[batch]
  %a = aten.masked_select(%x, %positive) : f32[n]
  %s = aten.sum(%a) : f32[]
  %t = aten.add.Tensor(%sum, %s) : f32[]
  %large = aten.gt.Scalar(%a, 10) : bool[n]
  %b = aten.masked_select(%a, %large) : f32[m]
  %l = aten.sum(%b) : f32[]
  %half = aten.mul.Tensor(%x, %l) : f32[batch]
  update %calls = %more
  update %sum = %t
  update %drawn = %d
  update %x = %half
  return %b
}
)";

// How many steps may still start before one fails; below 0, all.
std::atomic<int> steps_until_failure = -1;

class FailOnce : public StepObserver {
 public:
  absl::Status BeforeStep(StepId, int) override {
    return steps_until_failure-- == 0 ? absl::DataLossError("injected")
                                      : absl::OkStatus();
  }
};

// The next number of a sequence that outlives a run, as a generator's does.
std::atomic<int> num_draws = 0;

bool LaunchDraw(const void*, void* const* args, LaunchContext&) {
  const auto number = static_cast<float>(++num_draws);
  if (args[1] != nullptr) std::memcpy(args[1], &number, sizeof number);
  return true;
}

Verdict PrepareDraw(const KernelRequest&) {
  return Prepared{.launch = LaunchDraw};
}

class SegmentRunTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    plans_ = std::make_shared<PlanCache>(AllOps(), AllKernels());
    MICA_ASSERT_OK_AND_ASSIGN(executor_,
                              Executor::Create(Place(), AllOps(), AllKernels(),
                                               {.fuse = GetParam()}, plans_));
  }

  TensorView Calls() {
    return {.data = calls_.data(), .type = {.dtype = DType::kF32}};
  }

  std::shared_ptr<PlanCache> plans_;
  std::unique_ptr<Executor> executor_;
  std::vector<float> calls_ = {0};
};

TEST_P(SegmentRunTest, RunsWhatDataGivesASize) {
  const auto program = ParseShared(kRowsAboveZero);
  const auto run = [&](std::vector<float> x) {
    const auto rows = static_cast<int64_t>(x.size()) / 2;
    return executor_->Run(program, {{"x", ViewOf(x, {rows, 2})}},
                          {{"calls", Calls()}}, {});
  };
  MICA_ASSERT_OK_AND_ASSIGN(auto results, run({1, 2, -3, 1, 0, 4}));
  EXPECT_THAT(results[0].type().dims, ElementsAre(2, 2));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(2, 4, 0, 8));
  EXPECT_THAT(NumbersOf<int64_t>(results[1]), ElementsAre(0, 2));
  // Other numbers of rows found, none at all, another batch, the first again.
  MICA_ASSERT_OK_AND_ASSIGN(results, run({-1, -2, -3, 1, 0, 4}));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(0, 8));
  MICA_ASSERT_OK_AND_ASSIGN(results, run({-1, -2, -3, 1, 0, -4}));
  EXPECT_THAT(results[0].type().dims, ElementsAre(0, 2));
  MICA_ASSERT_OK_AND_ASSIGN(results, run({5, 5}));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(10, 10));
  MICA_ASSERT_OK_AND_ASSIGN(results, run({1, 2, -3, 1, 0, 4}));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(2, 4, 0, 8));
  EXPECT_EQ(calls_[0], 5);
}

TEST_P(SegmentRunTest, PlansASizeOnce) {
  const auto program = ParseShared(kTwice);
  for (int i = 0; i < 3; ++i) {
    std::vector<float> x = {1, -1, 20, 3, 30};
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto results,
        executor_->Run(program, {{"x", ViewOf(x, {5})}}, {}, {}));
    EXPECT_THAT(NumbersOf(results[0]), ElementsAre(10, 15));
    EXPECT_THAT(NumbersOf(results[1]), ElementsAre(1, 20, 3, 30));
    EXPECT_EQ(plans_->stats().built, 3);
  }
  // The first segment is as large as before.
  std::vector<float> x = {1, -1, -20, 3, 30};
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto results,
      executor_->Run(program, {{"x", ViewOf(x, {5})}}, {}, {}));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(15));
  EXPECT_EQ(plans_->stats().built, 5);
}

TEST_P(SegmentRunTest, FetchesWhatIsAskedFor) {
  std::vector<float> x = {1, -1, 20};
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto results,
      executor_->Run(ParseShared(kTwice), {{"x", ViewOf(x, {3})}}, {},
                     {"a", "positive"}));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(1, 20));
  EXPECT_THAT(results[1].type().dims, ElementsAre(3));
  // Nothing of unknown size is left.
  MICA_ASSERT_OK(executor_->Run(ParseShared(kTwice), {{"x", ViewOf(x, {3})}},
                                {}, {"positive"}));
}

TEST_P(SegmentRunTest, ASymbolHasOneSize) {
  const auto program = ParseShared(kSameCount);
  std::vector<float> x = {1, -1, 20, -2};
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto results,
      executor_->Run(program, {{"x", ViewOf(x, {4})}}, {}, {}));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(0, 18));
  std::vector<float> other = {1, -1, 20, 2};
  EXPECT_THAT(executor_->Run(program, {{"x", ViewOf(other, {4})}}, {}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("aten.masked_select: wants f32[3] by the size "
                                 "of another value, found 1 row")));
  MICA_ASSERT_OK(executor_->Run(program, {{"x", ViewOf(x, {4})}}, {}, {}));
}

TEST_P(SegmentRunTest, AnErrorBehindTheFirstSegmentUpdatesNothing) {
  const auto program = ParseShared(R"(program @broken(%x: f32[batch]) {
  %calls = variable "calls" : f32[]
  %more = aten.add.Scalar(%calls, 1) : f32[]
  %mask = aten.gt.Scalar(%x, 0) : bool[batch]
  %at = aten.nonzero(%mask) : i64[n,1]
  %far = aten.add.Scalar(%at, 1) : i64[n,1]
  %index = aten.select.int(%far, 1, 0) : i64[n]
  %chosen = aten.index_select(%x, 0, %index) : f32[n]
  update %calls = %more
  return %chosen
}
)");
  std::vector<float> x = {1, -1, 20};
  EXPECT_THAT(executor_->Run(program, {{"x", ViewOf(x, {3})}},
                             {{"calls", Calls()}}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("aten.index_select")));
  EXPECT_EQ(calls_[0], 0);
  x = {1, -1, -20};
  MICA_ASSERT_OK(executor_->Run(program, {{"x", ViewOf(x, {3})}},
                                {{"calls", Calls()}}, {}));
  EXPECT_EQ(calls_[0], 1);
}

// What a run of kUpdates may write. The input lies there with gaps, so that it
// is copied in and out.
struct Updated {
  std::vector<float> x = {1, 0, -1, 0, 20, 0, 3, 0, 30, 0};
  std::vector<float> variables = {0, 100, 0};
  friend bool operator==(const Updated&, const Updated&) = default;
};

TEST_P(SegmentRunTest, AnErrorAtAnyStepUpdatesNothing) {
  const auto program = ParseShared(kUpdates);
  const std::vector<PlanOptions> all_options = {
      {.fuse = GetParam(), .prepare_aten = &PrepareDraw},
      {.num_streams = 2,
       .wait_nanoseconds = 0,
       .fuse = GetParam(),
       .prepare_aten = &PrepareDraw},
      {.num_threads = 2,
       .queue = true,
       .take_nanoseconds = 0,
       .fuse = GetParam(),
       .prepare_aten = &PrepareDraw}};
  for (const PlanOptions& options : all_options) {
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto executor,
        Executor::Create(Place(), AllOps(), AllKernels(), options, nullptr,
                         [](const Plan&) -> JobOptions {
                           return {.observers = {std::make_shared<FailOnce>()}};
                         }));
    const auto run = [&](Updated& at, int failing_step) {
      steps_until_failure = failing_step;
      const TensorView x{
          .data = at.x.data(),
          .type = {.dtype = DType::kF32, .dims = {5}, .strides = {2}}};
      NamedViews variables;
      for (size_t i = 0; i < at.variables.size(); ++i) {
        variables[std::vector<std::string>{"calls", "sum", "drawn"}[i]] = {
            .data = &at.variables[i], .type = {.dtype = DType::kF32}};
      }
      const auto results = executor->Run(program, {{"x", x}}, variables, {});
      steps_until_failure = -1;
      return results;
    };
    int num_failed = 0;
    for (int step = 0;; ++step) {
      Updated at;
      num_draws = 0;
      const auto results = run(at, step);
      if (results.ok()) break;
      ++num_failed;
      EXPECT_THAT(results,
                  StatusIs(absl::StatusCode::kDataLoss, HasSubstr("injected")));
      EXPECT_EQ(at, Updated()) << "step " << step;
      // A draw isn't taken back, as eager's isn't, and not made twice.
      const int drawn_in_vain = num_draws;
      EXPECT_LE(drawn_in_vain, 1);
      MICA_ASSERT_OK(run(at, -1));
      EXPECT_EQ(num_draws, drawn_in_vain + 1);
      const auto last = static_cast<float>(num_draws);
      EXPECT_THAT(at.variables, ElementsAre(1, 154, last)) << "step " << step;
      EXPECT_THAT(at.x, ElementsAre(50, 0, -50, 0, 1000, 0, 150, 0, 1500, 0));
    }
    // Each segment has some.
    EXPECT_GE(num_failed, 6);
  }
}

TEST_P(SegmentRunTest, RefusesWhatItCantSize) {
  std::vector<float> x = {1, -1, 20};
  EXPECT_THAT(executor_->Run(ParseShared(R"(program @unknown(%x: f32[batch]) {
  %y = aten.relu(%x) : f32[k]
  %at = aten.nonzero(%y) : i64[n,1]
  return %at
}
)"),
                             {{"x", ViewOf(x, {3})}}, {}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("result is f32[3], but the program says")));
  EXPECT_THAT(ParseProgram(R"(program @ranks(%x: f32[3]) {
  %at = aten.nonzero(%x) : i64[n,2]
  return %at
}
)",
                           AllOps()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("result is i64[3,1] at most")));
  EXPECT_THAT(
      executor_->PlanFor(ParseShared(kTwice), {{"x", ViewOf(x, {3})}}, {}),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("depend on data")));
}

TEST_P(SegmentRunTest, ForgetsSizesBeyondMany) {
  const auto program = ParseShared(kTwice);
  for (int count = 0; count < 2 * kMostSizes + 3; ++count) {
    std::vector<float> x(200, -1);
    std::fill(x.begin(), x.begin() + count, 12);
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto results,
        executor_->Run(program, {{"x", ViewOf(x, {200})}}, {}, {}));
    EXPECT_EQ(results[0].type().dims[0], count);
  }
}

INSTANTIATE_TEST_SUITE_P(Fused, SegmentRunTest, testing::Bool());

}  // namespace
}  // namespace mica
