#include "analysis/plan/plan.h"

#include <string>

#include "analysis/plan/plan_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/tensor/tensor.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kChain[] = R"(program @chain(%x: f32[100]) {
  %a = aten.exp(%x) : f32[100]
  %b = aten.neg(%a) : f32[100]
  %c = aten.exp(%b) : f32[100]
  %d = aten.neg(%c) : f32[100]
  return %d
}
)";

TEST(PlanTest, ResultsTakeTheBytesOfOperandsThatDie) {
  constexpr char kText[] = R"(program @p(%x: f32[100]) {
  %a = aten.exp(%x) : f32[100]
  %b = aten.neg(%a) : f32[100]
  %c = aten.sum(%b) : f32[]
  return %c
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(auto plan, PlanOf(kText, {.fuse = false}));
  EXPECT_EQ(plan->arena_bytes(), AlignUp(400));
  MICA_ASSERT_OK_AND_ASSIGN(
      plan, PlanOf(kText, {.fuse = false, .reuse_buffers = false}));
  EXPECT_EQ(plan->arena_bytes(), 2 * AlignUp(400));
}

TEST(PlanTest, OperandsThatDieInAnOutputLieThere) {
  MICA_ASSERT_OK_AND_ASSIGN(auto plan, PlanOf(kChain, {.fuse = false}));
  EXPECT_EQ(plan->arena_bytes(), 0);
  const Location output = {.home = Home::kOutput, .index = 0};
  for (const Step& step : plan->steps()) {
    EXPECT_EQ(plan->args()[step.first_arg + 1], output);
  }
  MICA_ASSERT_OK_AND_ASSIGN(
      plan, PlanOf(kChain, {.fuse = false, .reuse_buffers = false}));
  EXPECT_EQ(plan->arena_bytes(), 2 * AlignUp(400));
}

TEST(PlanTest, OutputsServeAsScratchUntilTheyAreWritten) {
  constexpr char kText[] = R"(program @p(%x: f32[100]) {
  %a = aten.cumsum(%x, 0) : f32[100]
  %b = aten.cumsum(%a, 0) : f32[100]
  %c = aten.cumsum(%b, 0) : f32[100]
  return %c
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(auto plan, PlanOf(kText));
  EXPECT_EQ(plan->arena_bytes(), 2 * AlignUp(400));
  MICA_ASSERT_OK_AND_ASSIGN(plan, PlanOf(kText, {.lend_above_bytes = 0}));
  EXPECT_EQ(plan->arena_bytes(), AlignUp(400));
  EXPECT_EQ(plan->args()[1], (Location{.home = Home::kOutput, .index = 0}));
}

TEST(PlanTest, ComputesOutputsWhereTheCallerWantsThem) {
  MICA_ASSERT_OK_AND_ASSIGN(auto plan, PlanOf(kChain));
  const Step& last = plan->steps().back();
  EXPECT_EQ(plan->args()[last.first_arg + 1],
            (Location{.home = Home::kOutput, .index = 0}));
}

TEST(PlanTest, ViewsAreAddresses) {
  MICA_ASSERT_OK_AND_ASSIGN(auto plan, PlanOf(R"(program @v(%x: f32[4,6]) {
  %r = aten.select.int(%x, 0, 2) : f32[6]
  %s = aten.slice.Tensor(%r, 0, 3, 6) : f32[3]
  %y = aten.neg(%s) : f32[3]
  return %y
}
)"));
  ASSERT_EQ(plan->steps().size(), 1u);
  EXPECT_EQ(plan->args()[0],
            (Location{.home = Home::kInput, .offset = (2 * 6 + 3) * 4}));
}

TEST(PlanTest, KeepsAnOperandThatAnUpdateStillReads) {
  MICA_ASSERT_OK_AND_ASSIGN(auto plan, PlanOf(R"(program @u(%x: f32[8]) {
  %w = variable "w" : f32[8]
  %a = aten.add.Tensor(%x, %w) : f32[8]
  %b = aten.neg(%a) : f32[8]
  update "w" = %a
  return %b
}
)",
                                              {.fuse = false}));
  EXPECT_EQ(plan->num_compute(), 2);
  EXPECT_EQ(plan->steps().size(), 3u);
  EXPECT_THAT(plan->ToText(), HasSubstr("2: update %w by"));
}

TEST(PlanTest, UpdatesAreComputedWhereTheyAreKept) {
  MICA_ASSERT_OK_AND_ASSIGN(auto plan,
                            PlanOf(R"(program @sgd(%g: f32[8], %s: f64) {
  %w = variable "w" : f32[8]
  %m = variable "m" : f32[8]
  %m1 = aten.mul.Tensor(%m, %s) : f32[8]
  %m2 = aten.add.Tensor(%m1, %g) : f32[8]
  %w2 = aten.add.Tensor(%w, %m2, alpha=-0.5) : f32[8]
  update "w" = %w2
  update "m" = %m2
  return
}
)"));
  EXPECT_EQ(plan->num_compute(), 0);
  EXPECT_EQ(plan->arena_bytes(), 0);
  EXPECT_THAT(plan->ToText(),
              HasSubstr("0: mica.elementwise by cpu.elementwise (variable1, "
                        "input0, variable0, input1, variable1, variable0)"));
}

// The second op would read what the first has overwritten.
TEST(PlanTest, AnUpdateThatReadsAnUpdatedVariableIsComputedBefore) {
  MICA_ASSERT_OK_AND_ASSIGN(auto plan, PlanOf(R"(program @swap(%x: f32[8]) {
  %a = variable "a" : f32[8]
  %b = variable "b" : f32[8]
  %a2 = aten.mul.Tensor(%a, %x) : f32[8]
  %b2 = aten.add.Tensor(%b, %a) : f32[8]
  update "a" = %a2
  update "b" = %b2
  return
}
)"));
  EXPECT_EQ(plan->num_compute(), 1);
  EXPECT_THAT(plan->ToText(), HasSubstr("0: aten.add.Tensor"));
  EXPECT_THAT(plan->ToText(), HasSubstr("1: aten.mul.Tensor"));
  EXPECT_THAT(plan->ToText(), HasSubstr("2: update %b by"));
}

// A view of the variable lies differently in it.
TEST(PlanTest, AnUpdateThatReadsItsVariableOtherwiseIsACopy) {
  MICA_ASSERT_OK_AND_ASSIGN(auto plan, PlanOf(R"(program @t(%x: f32[4,4]) {
  %w = variable "w" : f32[4,4]
  %t = aten.t(%w) : f32[4,4]{1,4}
  %s = aten.add.Tensor(%x, %t) : f32[4,4]
  update "w" = %s
  return
}
)"));
  EXPECT_EQ(plan->num_compute(), 1);
  EXPECT_THAT(plan->ToText(), HasSubstr("1: update %w by"));
}

TEST(PlanTest, PacksOnlyFrozenVariables) {
  constexpr char kLinear[] = R"(program @l(%x: f32[64,256]) {
  %w = variable "w" : f32[512,256]
  %t = aten.t(%w) : f32[256,512]{1,256}
  %y = aten.mm(%x, %t) : f32[64,512]
  return %y
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(auto plan, PlanOf(kLinear));
  EXPECT_TRUE(plan->packed().empty());
  MICA_ASSERT_OK_AND_ASSIGN(plan, PlanOf(kLinear, {.frozen = true}));
  EXPECT_EQ(plan->packed().size(), 1u);
}

TEST(PlanTest, NamesTheOpThatHasNoKernel) {
  EXPECT_THAT(PlanOf(R"(program @o(%x: f32[8]) {
  opaque "aten::secret(Tensor self) -> Tensor"
  %y = aten.secret(%x) : f32[8] @ "user.py":7
  return %y
}
)")
                  .status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("aten.secret (user.py:7)")));
}

TEST(PlanTest, RefusesSymbols) {
  EXPECT_THAT(
      PlanOf("program @s(%x: f32[n]) {\n  return %x\n}\n").status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("specialise it")));
}

TEST(PlanTest, DropsWhatNothingReads) {
  MICA_ASSERT_OK_AND_ASSIGN(auto plan, PlanOf(R"(program @d(%x: f32[8]) {
  %a = aten.exp(%x) : f32[8]
  %b = aten.neg(%x) : f32[8]
  return %b
}
)"));
  EXPECT_THAT(plan->ToText(), Not(HasSubstr("aten.exp")));
}

}  // namespace
}  // namespace mica
