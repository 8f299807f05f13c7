// Steps of functions among those of the Program that calls them.

#include <algorithm>
#include <string>

#include "absl/strings/str_replace.h"
#include "analysis/passes/rewrite.h"
#include "analysis/plan/plan.h"
#include "analysis/plan/plan_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/tensor/tensor.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

absl::StatusOr<std::shared_ptr<const Plan>> UnfusedPlanOf(
    absl::string_view text, PlanOptions options = {}) {
  options.fuse = false;
  return PlanOf(text, options);
}

// A layer that is called twice; its result is as large as %x.
constexpr char kLayers[] = R"(function @layer(%x: f32[64], %w: f32[64]) {
  %s = aten.cumsum(%x, 0) : f32[64]
  %y = aten.mul.Tensor(%s, %w) : f32[64]
  return %y
}
program @net(%x: f32[64]) {
  %w0 = variable "w0" : f32[64]
  %w1 = variable "w1" : f32[64]
  %1 = mica.call @layer(%x, %w0) : f32[64]
  %2 = mica.call @layer(%1, %w1) : f32[64]
  return %2
}
)";

TEST(CallStepsTest, AFunctionsStepsStandWhereItIsCalled) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, UnfusedPlanOf(kLayers));
  EXPECT_THAT(plan->ToText(), Not(HasSubstr("control")));
  ASSERT_EQ(plan->steps().size(), 4u);
  ASSERT_EQ(plan->calls().size(), 2u);
  EXPECT_EQ(plan->calls()[0].function, plan->calls()[1].function);
  for (StepId id = 0; id < 4; ++id) {
    const Step& step = plan->steps()[id];
    EXPECT_EQ(step.call, id / 2);
    EXPECT_EQ(step.op, id % 2);
    EXPECT_EQ(&plan->block(step), plan->calls()[step.call].function);
    EXPECT_EQ(plan->op(step)->def->name(), step.name);
  }
  // Each call has its own variable, and kernels are chosen once.
  EXPECT_THAT(plan->ToText(),
              AllOf(HasSubstr("variable0"), HasSubstr("variable1"),
                    HasSubstr("output0")));
  EXPECT_EQ(plan->steps()[0].prepared, plan->steps()[2].prepared);
}

TEST(CallStepsTest, ACallIsAStepWhereCallsAreNotInlined) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                            UnfusedPlanOf(kLayers, {.inline_calls = false}));
  EXPECT_EQ(plan->steps().size(), 2u);
  EXPECT_TRUE(plan->calls().empty());
  EXPECT_THAT(plan->ToText(), HasSubstr("mica.call by control"));
}

// %0 dies in the call, whose first op may write over it.
TEST(CallStepsTest, AResultTakesTheMemoryOfAnOperandThatDies) {
  constexpr char kText[] = R"(function @layer(%x: f32[64]) {
  %a = aten.exp(%x) : f32[64]
  %b = aten.cumsum(%a, 0) : f32[64]
  return %b
}
program @net(%x: f32[64]) {
  %0 = aten.neg(%x) : f32[64]
  %1 = mica.call @layer(%0) : f32[64]
  %2 = aten.cumsum(%1, 0) : f32[64]
  return %2$MORE
}
)";
  const auto arena_of = [&](absl::string_view more) -> int64_t {
    const auto plan =
        UnfusedPlanOf(absl::StrReplaceAll(kText, {{"$MORE", more}}));
    EXPECT_THAT(plan, IsOk());
    return (*plan)->arena_bytes();
  };
  // %0 and %a in one place, %1 in another.
  EXPECT_EQ(arena_of(""), 2 * AlignUp(256));
  // Here %0 lasts, in an output; %a still has to be somewhere.
  EXPECT_EQ(arena_of(", %0"), 2 * AlignUp(256));
}

TEST(CallStepsTest, AnOperandThatIsGivenTwiceIsNotWrittenOver) {
  constexpr char kText[] = R"(function @layer(%x: f32[64], %z: f32[64]) {
  %a = aten.exp(%x) : f32[64]
  %b = aten.add.Tensor(%a, %z) : f32[64]
  return %b
}
program @net(%x: f32[64]) {
  %0 = aten.neg(%x) : f32[64]
  %1 = mica.call @layer(%0, %0) : f32[64]
  return %1
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, UnfusedPlanOf(kText));
  const Step& exp = plan->steps()[1];
  EXPECT_NE(plan->args()[exp.first_arg], plan->args()[exp.first_arg + 1]);
}

// An optimizer's function: one result becomes a variable, in its place.
constexpr char kUpdates[] =
    R"(function @update(%p: f32[64], %g: f32[64]) {
  %s = aten.cumsum(%g, 0) : f32[64]
  %n = aten.sub.Tensor(%p, %s) : f32[64]
  return %n
}
program @step(%g: f32[64]) {
  %p = variable "p" : f32[64]
  %q = variable "q" : f32[64]
  %1 = mica.call @update($OPERAND, %g) : f32[64]
  %2 = mica.call @update(%q, %g) : f32[64]
  update "p" = %1
  update "q" = %2
  return %g
}
)";

std::string Updates(absl::string_view operand) {
  return absl::StrReplaceAll(kUpdates, {{"$OPERAND", operand}});
}

TEST(CallStepsTest, UpdatesAreComputedWhereVariablesAre) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, UnfusedPlanOf(Updates("%p")));
  const std::string text = plan->ToText();
  EXPECT_THAT(text, Not(HasSubstr("update %")));  // No copies.
  ASSERT_EQ(plan->steps().size() - plan->num_compute(), 2u) << text;
  for (int i : {0, 1}) {
    const Step& step = plan->steps()[plan->num_compute() + i];
    EXPECT_EQ(step.name, "aten.sub.Tensor");
    EXPECT_EQ(step.call, i);
    const Location& to = plan->args()[step.first_arg + 2];
    EXPECT_EQ(to.home, Home::kVariable);
    EXPECT_EQ(to.index, i);
  }
  // What the updates read lasts until then.
  EXPECT_EQ(plan->arena_bytes(), 2 * AlignUp(256));
}

// The first call reads what the second one's result becomes.
TEST(CallStepsTest, NoUpdateReadsWhatAnotherHasWritten) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, UnfusedPlanOf(Updates("%q")));
  const auto commits = plan->steps().subspan(plan->num_compute());
  ASSERT_EQ(commits.size(), 2u);
  // q's old elements go into p first.
  EXPECT_EQ(plan->args()[commits[0].first_arg + 2].index, 0);
  EXPECT_EQ(plan->args()[commits[1].first_arg + 2].index, 1);
}

TEST(CallStepsTest, FrozenVariablesAreFoldedForEachCall) {
  constexpr char kText[] = R"(function @layer(%x: f32[64], %w: f32[64]) {
  %s = aten.cumsum(%w, 0) : f32[64]
  %y = aten.mul.Tensor(%x, %s) : f32[64]
  return %y
}
program @net(%x: f32[64]) {
  %w0 = variable "w0" : f32[64]
  %w1 = variable "w1" : f32[64]
  %1 = mica.call @layer(%x, %w0) : f32[64]
  %2 = mica.call @layer(%1, %w1) : f32[64]
  return %2
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                            UnfusedPlanOf(kText, {.frozen = true}));
  EXPECT_EQ(plan->steps().size(), 2u);
  ASSERT_EQ(plan->folds().size(), 2u);
  EXPECT_EQ(plan->fold_args()[plan->folds()[1].first_arg].index, 1);
  EXPECT_EQ(plan->folds()[1].call, 1);
}

TEST(CallStepsTest, AFunctionsConstantsAreThePlansOnce) {
  constexpr char kText[] = R"(function @layer(%x: f32[2]) {
  %c = constant [1.0, 2.0] : f32[2]
  %y = aten.mul.Tensor(%x, %c) : f32[2]
  return %y
}
program @net(%x: f32[2]) {
  %d = constant [3.0, 4.0] : f32[2]
  %0 = aten.add.Tensor(%x, %d) : f32[2]
  %1 = mica.call @layer(%0) : f32[2]
  %2 = mica.call @layer(%1) : f32[2]
  return %2
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, UnfusedPlanOf(kText));
  for (int i : {1, 2}) {
    const Location& c = plan->args()[plan->steps()[i].first_arg + 1];
    EXPECT_EQ(c.home, Home::kConstant);
    EXPECT_EQ(c.index, 1);
  }
  EXPECT_EQ(static_cast<const float*>(plan->constant(1))[1], 2);
}

TEST(CallStepsTest, FunctionsInFunctionsKnowTheirCaller) {
  constexpr char kText[] = R"(function @inner(%x: f32[64]) {
  %y = aten.cumsum(%x, 0) : f32[64]
  return %y
}
function @outer(%x: f32[64]) {
  %0 = mica.call @inner(%x) : f32[64]
  %1 = mica.call @inner(%0) : f32[64]
  return %1
}
program @net(%x: f32[64]) {
  %0 = mica.call @outer(%x) : f32[64]
  %1 = mica.call @outer(%0) : f32[64]
  return %1
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, UnfusedPlanOf(kText));
  EXPECT_EQ(plan->steps().size(), 4u);
  ASSERT_EQ(plan->calls().size(), 6u);
  const int callers[] = {-1, 0, 0, -1, 3, 3};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(plan->calls()[i].caller, callers[i]);
}

TEST(CallStepsTest, NamesAFunctionsOpThatHasNoKernel) {
  constexpr char kText[] = R"(function @layer(%x: f32[2]) {
  opaque "aten::foo(Tensor x) -> Tensor"
  %y = aten.foo(%x) : f32[2] @ "m.py":4
  return %y
}
program @net(%x: f32[2]) {
  %0 = mica.call @layer(%x) : f32[2] @ "m.py":3
  return %0
}
)";
  EXPECT_THAT(UnfusedPlanOf(kText),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("mica.call (m.py:3): @layer: aten.foo "
                                 "(m.py:4): opaque operator aten.foo")));
}

// A result that shows all of a value in another form is that value.
TEST(CallStepsTest, AWholeViewIsReturnedWithoutACopy) {
  constexpr char kText[] = R"(program @net(%x: f32[8,8]) {
  %0 = aten.cumsum(%x, 0) : f32[8,8]
  %1 = aten.view(%0, [64]) : f32[64]
  %2 = aten.view(%0, [4,16]) : f32[4,16]
  return %1$MORE
}
)";
  const auto copies_of = [&](absl::string_view more) {
    const auto plan =
        UnfusedPlanOf(absl::StrReplaceAll(kText, {{"$MORE", more}}));
    EXPECT_THAT(plan, IsOk());
    return std::count_if(
        (*plan)->steps().begin(), (*plan)->steps().end(),
        [](const Step& step) { return step.name.find("copy") == 0; });
  };
  EXPECT_EQ(copies_of(""), 0);
  EXPECT_EQ(copies_of(", %2"), 1);
  EXPECT_EQ(copies_of(", %0"), 1);
}

}  // namespace
}  // namespace mica
