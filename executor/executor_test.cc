#include "executor/executor.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "executor/tensors_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

const int kMaxPrepared = ExecutorLimits().max_prepared;

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kLinearRelu[] = R"(program @net(%x: f32[batch,2]) {
  %w = variable "fc.weight" : f32[2,2]
  %h = aten.mm(%x, %w) : f32[batch,2]
  %y = aten.relu(%h) : f32[batch,2]
  return %y
}
)";

class ExecutorTest : public testing::Test {
 protected:
  void SetUp() override {
    MICA_ASSERT_OK_AND_ASSIGN(
        executor_,
        Executor::Create(Place(), AllOps(), AllKernels(), PlanOptions()));
  }

  std::unique_ptr<Executor> executor_;
  std::vector<float> x_ = {1, 2, 3, 4};
  std::vector<float> w_ = {1, 0, 0, -1};
};

TEST_F(ExecutorTest, RunsASymbolicProgramAtTheFeedsSize) {
  const auto program = ParseShared(kLinearRelu);
  MICA_ASSERT_OK_AND_ASSIGN(
      std::vector<Tensor> results,
      executor_->Run(program, {{"x", ViewOf(x_, {2, 2})}},
                     {{"fc.weight", ViewOf(w_, {2, 2})}}, {}));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(1, 0, 3, 0));
  MICA_ASSERT_OK_AND_ASSIGN(
      results, executor_->Run(program, {{"x", ViewOf(x_, {1, 2})}},
                              {{"fc.weight", ViewOf(w_, {2, 2})}}, {}));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(1, 0));
}

TEST_F(ExecutorTest, ForgetsWhatItUsedLeastRecently) {
  const auto run = [&](const std::shared_ptr<const Program>& program,
                       int rows) {
    std::vector<float> x(2 * rows, 1);
    const auto results =
        executor_->Run(program, {{"x", ViewOf(x, {rows, 2})}},
                       {{"fc.weight", ViewOf(w_, {2, 2})}}, {});
    MICA_ASSERT_OK(results.status());
    EXPECT_EQ(NumbersOf((*results)[0]).size(), x.size());
  };
  // Programs of their own: how long one lives tells whether it is kept.
  std::vector<std::weak_ptr<const Program>> others;
  const auto run_other = [&](int rows) {
    const auto program = ParseShared(kLinearRelu);
    others.push_back(program);
    run(program, rows);
  };
  const auto again = ParseShared(kLinearRelu);
  run(again, 2);
  for (int i = 1; i < kMaxPrepared; ++i) run_other(i);
  EXPECT_EQ(executor_->num_prepared(), kMaxPrepared);
  EXPECT_FALSE(others[0].expired());
  run(again, 2);  // It was the oldest; now others[0] is.
  run_other(3);
  EXPECT_EQ(executor_->num_prepared(), kMaxPrepared);
  EXPECT_TRUE(others[0].expired());
  EXPECT_FALSE(others[1].expired());
  for (int i = 0; i < 2 * kMaxPrepared; ++i) {
    run_other(1 + i % 7);
    run(again, 2);
  }
  EXPECT_EQ(executor_->num_prepared(), kMaxPrepared);
  EXPECT_TRUE(others[kMaxPrepared].expired());
  EXPECT_FALSE(others.back().expired());
  EXPECT_GT(again.use_count(), 1);
}

TEST_F(ExecutorTest, AnotherProgramsFrozenWeightsMayLieWhereOthersLay) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto frozen,
                            Executor::Create(Place(), AllOps(), AllKernels(),
                                             PlanOptions{.frozen = true}));
  constexpr int kSize = 64;  // Large enough to be packed.
  const std::string text = absl::StrReplaceAll(
      kLinearRelu, {{"batch,2", "batch,64"}, {"2,2", "64,64"}});
  std::vector<float> x(8 * kSize, 1), w(kSize * kSize, 1);
  for (const float weight : {1, 2, 3}) {
    // Its owner has gone; this one's weights got its memory.
    std::fill(w.begin(), w.end(), weight);
    const auto program = ParseShared(text);
    for (const int rows : {8, 4}) {
      MICA_ASSERT_OK_AND_ASSIGN(
          const std::vector<Tensor> results,
          frozen->Run(program, {{"x", ViewOf(x, {rows, kSize})}},
                      {{"fc.weight", ViewOf(w, {kSize, kSize})}}, {}));
      EXPECT_THAT(NumbersOf(results[0]), Each(kSize * weight));
    }
  }
}

TEST_F(ExecutorTest, FetchesAnyValueByName) {
  MICA_ASSERT_OK_AND_ASSIGN(
      std::vector<Tensor> results,
      executor_->Run(ParseShared(kLinearRelu), {{"x", ViewOf(x_, {2, 2})}},
                     {{"fc.weight", ViewOf(w_, {2, 2})}}, {"h", "x", "h"}));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(1, -2, 3, -4));
  EXPECT_THAT(NumbersOf(results[1]), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(NumbersOf(results[2]), NumbersOf(results[0]));
  EXPECT_NE(results[2].data(), results[0].data());
}

TEST_F(ExecutorTest, ReadsFeedsThatAreNotRowMajor) {
  TensorView transposed = ViewOf(x_, {2, 2});
  transposed.type.strides = {1, 2};
  MICA_ASSERT_OK_AND_ASSIGN(
      std::vector<Tensor> results,
      executor_->Run(ParseShared(kLinearRelu), {{"x", transposed}},
                     {{"fc.weight", ViewOf(w_, {2, 2})}}, {"h"}));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(1, -3, 2, -4));
}

TEST_F(ExecutorTest, UpdatesInputsAndVariablesAfterAllReads) {
  const auto program = ParseShared(R"(program @swap(%a: f32[2]) {
  %b = variable "b" : f32[2]
  %s = aten.add.Tensor(%a, %b) : f32[2]
  update %a = %b
  update "b" = %a
  return %s
}
)");
  std::vector<float> a = {1, 2};
  std::vector<float> b = {10, 20};
  MICA_ASSERT_OK_AND_ASSIGN(std::vector<Tensor> results,
                            executor_->Run(program, {{"a", ViewOf(a, {2})}},
                                           {{"b", ViewOf(b, {2})}}, {}));
  EXPECT_THAT(NumbersOf(results[0]), ElementsAre(11, 22));
  EXPECT_THAT(a, ElementsAre(10, 20));
  EXPECT_THAT(b, ElementsAre(1, 2));
}

TEST_F(ExecutorTest, CopiesTensorsWithoutMemory) {
  const auto program = ParseShared(R"(program @nothing(%a: f32[0], %b: f32[0]) {
  %s = aten.add.Tensor(%a, %b) : f32[0]
  update %a = %b
  update %b = %s
  return %b
}
)");
  const TensorView none = {.data = nullptr, .type = {.dims = {0}}};
  MICA_ASSERT_OK_AND_ASSIGN(
      std::vector<Tensor> results,
      executor_->Run(program, {{"a", none}, {"b", none}}, {}, {}));
  EXPECT_EQ(results[0].type().num_elements(), 0);
}

TEST_F(ExecutorTest, LeavesVariablesAloneWhenARunFails) {
  const auto program = ParseShared(R"(program @look(%i: i64[1]) {
  %w = variable "w" : f32[2,2]
  %n = aten.neg(%w) : f32[2,2]
  %e = aten.embedding(%w, %i) : f32[1,2] @ "model.py":7
  update "w" = %n
  return %e
}
)");
  int64_t index = 5;
  const TensorView feed = {.data = &index,
                           .type = {.dtype = DType::kI64, .dims = {1}}};
  const NamedViews variables = {{"w", ViewOf(w_, {2, 2})}};
  EXPECT_THAT(executor_->Run(program, {{"i", feed}}, variables, {}).status(),
              StatusIs(testing::_, HasSubstr("aten.embedding (model.py:7)")));
  EXPECT_THAT(w_, ElementsAre(1, 0, 0, -1));
  index = 1;
  MICA_EXPECT_OK(executor_->Run(program, {{"i", feed}}, variables, {}));
  EXPECT_THAT(w_, ElementsAre(-1, 0, 0, 1));
}

TEST_F(ExecutorTest, RefusesWrongFeedsAndFetches) {
  const auto program = ParseShared(kLinearRelu);
  const NamedViews variables = {{"fc.weight", ViewOf(w_, {2, 2})}};
  const NamedViews good = {{"x", ViewOf(x_, {2, 2})}};
  EXPECT_THAT(executor_->Run(program, {}, variables, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("feed \"x\" is missing")));
  EXPECT_THAT(
      executor_->Run(program, {{"x", ViewOf(x_, {4, 1})}}, variables, {}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("wants f32[batch,2], got f32[4,1]")));
  EXPECT_THAT(executor_->Run(
                  program, {{"x", ViewOf(x_, {2, 2})}, {"z", ViewOf(x_, {4})}},
                  variables, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("feed \"z\" is for no input")));
  EXPECT_THAT(executor_->Run(program, good, variables, {"q"}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("fetch \"q\" is no value")));
  EXPECT_THAT(executor_->Run(program, good, {}, {}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("variable \"fc.weight\" has no value")));
}

}  // namespace
}  // namespace mica
