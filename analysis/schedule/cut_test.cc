#include "analysis/schedule/cut.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

constexpr char kForward[] = R"(program @net(%x: f32[4,8]) {
  %w0 = variable "a.weight" : f32[8,8]
  %w1 = variable "b.weight" : f32[8,8]
  %t0 = aten.t(%w0) : f32[8,8]{1,8}
  %h = aten.mm(%x, %t0) : f32[4,8]
  %t1 = aten.t(%w1) : f32[8,8]{1,8}
  %y = aten.mm(%h, %t1) : f32[4,8]
  return %y
}
)";

// One linear layer; its loss has the gradient %y.
constexpr char kStep[] = R"(program @step(%x: f32[4,8], %lr: f32[1]) {
  %w0 = variable "a.weight" : f32[8,8]
  %y = aten.mm(%x, %w0) : f32[4,8]
  %loss = aten.sum(%y) : f32[]
  %t = aten.t(%x) : f32[8,4]{1,8}
  %g = aten.mm(%t, %y) : f32[8,8]
  %s = aten.mul.Tensor(%g, %lr) : f32[8,8]
  %u = aten.sub.Tensor(%w0, %s) : f32[8,8]
  update "a.weight" = %u
  return %loss
}
)";

absl::StatusOr<CutProgram> Cut(const std::string& text,
                               const CutOptions& options) {
  MICA_ASSIGN_OR_RETURN(const Program program, ParseProgram(text, AllOps()));
  return CutIntoStages(program, options, AllOps());
}

TEST(CutTest, ForwardPassesBecomeAChain) {
  MICA_ASSERT_OK_AND_ASSIGN(const CutProgram cut,
                            Cut(kForward, {.num_stages = 2}));
  ASSERT_EQ(cut.stages.size(), 2);
  EXPECT_EQ(ToText(cut.stages[0].program), R"(program @net(%x: f32[4,8]) {
  %w0 = variable "a.weight" : f32[8,8]
  %t0 = aten.t(%w0) : f32[8,8]{1,8}
  %h = aten.mm(%x, %t0) : f32[4,8]
  return %h
}
)");
  EXPECT_EQ(ToText(cut.stages[1].program), R"(program @net(%h: f32[4,8]) {
  %w1 = variable "b.weight" : f32[8,8]
  %t1 = aten.t(%w1) : f32[8,8]{1,8}
  %y = aten.mm(%h, %t1) : f32[4,8]
  return %y
}
)");
  EXPECT_EQ(cut.stages[0].cost, cut.stages[1].cost);
  EXPECT_THAT(cut.fetches, ElementsAre("y"));
  EXPECT_THAT(cut.accumulators, ElementsAre());
}

TEST(CutTest, GradientsBecomeSumsThatTheUpdateReads) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const CutProgram cut,
      Cut(kStep, {.loss = "loss", .gradients = {{"a.weight", "g"}}}));
  ASSERT_EQ(cut.stages.size(), 3);
  EXPECT_EQ(cut.stages[1].jobs, (JobClass{JobType::kBackward, 0}));
  EXPECT_THAT(ToText(cut.stages[1].program),
              HasSubstr("update \"sum of gradients: a.weight\" = "));
  EXPECT_EQ(cut.stages[2].jobs, (JobClass{JobType::kUpdate, 0}));
  EXPECT_EQ(ToText(cut.stages[2].program), R"(program @step(%lr: f32[1]) {
  %w0 = variable "a.weight" : f32[8,8]
  %"sum of g" = variable "sum of gradients: a.weight" : f32[8,8]
  %s = aten.mul.Tensor(%"sum of g", %lr) : f32[8,8]
  %u = aten.sub.Tensor(%w0, %s) : f32[8,8]
  update "a.weight" = %u
  return
}
)");
  EXPECT_THAT(cut.accumulators, ElementsAre("sum of gradients: a.weight"));
}

TEST(CutTest, PartsOfBackwardPassesMayBeEmpty) {
  MICA_ASSERT_OK_AND_ASSIGN(const CutProgram cut,
                            Cut(kStep, {.loss = "loss",
                                        .gradients = {{"a.weight", "g"}},
                                        .split_backward = true}));
  ASSERT_EQ(cut.stages.size(), 4);
  EXPECT_EQ(cut.stages[1].jobs.type, JobType::kBackwardInput);
  EXPECT_EQ(cut.stages[1].program.ops().size(), 0);
  EXPECT_EQ(cut.stages[2].program.ops().size(), 3);
}

TEST(CutTest, NamesWhatThereIsNot) {
  EXPECT_THAT(Cut(kStep, {.num_stages = 0}),
              StatusIs(kInvalid, HasSubstr("got 0")));
  EXPECT_THAT(Cut(kStep, {.loss = "l", .gradients = {{"a.weight", "g"}}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("loss %l")));
  EXPECT_THAT(Cut(kStep, {.loss = "loss", .gradients = {{"b", "g"}}}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("gradient %g of variable \"b\"")));
  EXPECT_THAT(Cut("program @p(%x: f32[2]) {\n  return %x\n}\n", {}),
              StatusIs(kInvalid, HasSubstr("returns %x")));
}

TEST(CutTest, RefusesUpdatesThatReadAMicroBatchsValue) {
  std::string text = kStep;
  text.replace(text.find("(%g, %lr)"), 9, "(%g, %loss)");
  EXPECT_THAT(
      Cut(text, {.loss = "loss", .gradients = {{"a.weight", "g"}}}),
      StatusIs(kInvalid, HasSubstr("%loss of aten.sum is a micro-batch's, but "
                                   "an update reads it")));
}

TEST(CutTest, MatrixProductsCostTheirMultiplications) {
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(kForward, AllOps()));
  EXPECT_EQ(EstimateCost(program, program.ops()[0]), 0);
  EXPECT_EQ(EstimateCost(program, program.ops()[1]), 4 * 8 * 8);
}

}  // namespace
}  // namespace mica
