// Branches and loops in analysis: types, dead parts, memory, stored Plans.

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "analysis/passes/check_types.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/origins.h"
#include "analysis/passes/rewrite.h"
#include "analysis/plan/control_plan.h"
#include "analysis/plan/plan.h"
#include "analysis/plan/plan_file.h"
#include "analysis/plan/plan_key.h"
#include "analysis/plan/plan_testing.h"
#include "analysis/plan/step_facts.h"
#include "analysis/streams/happens_before.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/control_flow.h"
#include "framework/tensor/tensor.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const ControlPlan& ControlOf(const Plan& plan) {
  for (const Step& step : plan.steps()) {
    if (step.control != nullptr) return *step.control;
  }
  ADD_FAILURE() << "no branch or loop in " << plan.ToText();
  static const ControlPlan& none = *new ControlPlan;
  return none;
}

// %y of a branch whose second side is `other`, and a reader of it, or none.
std::string Branch(absl::string_view other, absl::string_view type,
                   absl::string_view reader) {
  return absl::StrCat(R"(program @p(%x: f32[2,3], %p: bool[]) {
  %y, %k = mica.if(%p, [%x]) : f32[2,3], f32[2,3] @ "m.py":1
    then(%x: f32[2,3]) {
      %0 = aten.relu(%x) : f32[2,3] @ "m.py":2
      return %0, %0
    }
    else(%x: f32[2,3]) {
      )",
                      other, R"(
    }
)",
                      reader, "}\n");
}

constexpr char kRead[] =
    "%z = aten.neg(%y) : f32[2,3] @ \"m.py\":9\n  return %z";
constexpr char kUnread[] = "%z = aten.neg(%k) : f32[2,3]\n  return %z";

TEST(ControlTest, RefusesAValueThatABranchGivesInAnotherType) {
  struct Case {
    absl::string_view other, type;
  };
  const Case cases[] = {
      {"%1 = aten._to_copy(%x, dtype=f64) : f64[2,3] @ \"m.py\":4\n"
       "return %1, %x",
       "f64[2,3] by aten._to_copy (m.py:4)"},
      {"%1 = aten.t(%x) : f32[3,2]{1,3} @ \"m.py\":4\n"
       "%2 = aten.clone(%1) : f32[3,2]{1,3} @ \"m.py\":5\n"
       "%3 = aten.view(%x, [3,2]) : f32[3,2]\n"
       "return %2, %x",
       "f32[3,2]{1,3} by aten.clone (m.py:5)"},
      {"%1 = aten.view(%x, [3,2]) : f32[3,2]\n"
       "%2 = aten.t(%1) : f32[2,3]{1,2} @ \"m.py\":6\n"
       "return %2, %x",
       "f32[2,3]{1,2} by aten.t (m.py:6)"},
      {"return none, %x", "absent"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(
        PlanOf(Branch(c.other, "", kRead)),
        StatusIs(kInvalid,
                 AllOf(HasSubstr("mica.if (m.py:1): %y is "),
                       HasSubstr("in 'then' f32[2,3] by aten.relu (m.py:2)"),
                       HasSubstr(absl::StrCat("in 'else' ", c.type)),
                       HasSubstr("aten.neg (m.py:9) reads it"))));
    // What nobody reads is free.
    MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                              PlanOf(Branch(c.other, "", kUnread)));
    EXPECT_EQ(plan->program().ops()[0].results.size(), 1u);
  }
}

// A loop of %x and a count; `next` makes what %x is after a round.
std::string Loop(
    absl::string_view next, absl::string_view returned,
    absl::string_view cond = "%p = aten.lt.Scalar(%i, 3) : bool[]") {
  return absl::StrCat(R"(program @p(%x: f32[2,3], %i: i64[]) {
  %y, %j = mica.while([%x, %i], []) : f32[2,3], i64[] @ "m.py":1
    cond(%x: f32[2,3], %i: i64[]) {
      )",
                      cond, R"(
      return %p
    }
    body(%x: f32[2,3], %i: i64[]) {
      %n = aten.add.Scalar(%i, 1) : i64[] @ "m.py":3
      )",
                      next, R"(
    }
  return )",
                      returned, "\n}\n");
}

TEST(ControlTest, RefusesAValueThatARoundGivesInAnotherType) {
  constexpr char kWide[] =
      "%w = aten._to_copy(%x, dtype=f64) : f64[2,3] @ \"m.py\":4\n"
      "return %w, %n";
  EXPECT_THAT(
      PlanOf(Loop(kWide, "%y, %j")),
      StatusIs(kInvalid,
               AllOf(HasSubstr("mica.while (m.py:1): %y is at first f32[2,3], "
                               "the input %x, but after a round f64[2,3] by "
                               "aten._to_copy (m.py:4)"),
                     HasSubstr("it is returned"))));
  // Nobody reads it, neither behind the loop nor in a later round.
  MICA_EXPECT_OK(PlanOf(Loop("return none, %n", "%j")));
  // The condition of a later round does.
  EXPECT_THAT(PlanOf(Loop("return none, %n", "%j",
                          "%s = aten.sum(%x) : f32[]\n"
                          "%p = aten.lt.Scalar(%s, 3) : bool[]")),
              StatusIs(kInvalid, AllOf(HasSubstr("after a round absent"),
                                       HasSubstr("a later round reads it"))));
}

TEST(ControlTest, LeavesOutWhatNobodyReads) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const Program program,
      ParseProgram(Loop("%d = aten.neg(%x) : f32[2,3]\nreturn %d, %n", "%j"),
                   AllOps()));
  MICA_ASSERT_OK_AND_ASSIGN(const Program lean,
                            RemoveDeadOps(WithOrigins(program), AllOps()));
  EXPECT_EQ(FlatOriginsOf(lean), (LargeVector<Origin>{{0}, {1}, {2}}));
  const Op& loop = lean.ops()[0];
  EXPECT_EQ(loop.results.size(), 1u);
  EXPECT_EQ(BodyOperands(loop), std::vector<ValueId>{lean.inputs()[1]});
  EXPECT_EQ(loop.bodies[1]->ops().size(), 1u);
}

TEST(ControlTest, TakesWhatALoopDoesNotChangeFromBeforeIt) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const Program program,
      ParseProgram(Loop("return %x, %n", "%y, %j"), AllOps()));
  MICA_ASSERT_OK_AND_ASSIGN(const Program lean,
                            RemoveDeadOps(program, AllOps()));
  EXPECT_EQ(lean.outputs()[0], lean.inputs()[0]);
  EXPECT_EQ(NumCarried(lean.ops()[0]), 1);
}

TEST(ControlTest, FusesInBodies) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto plan, PlanOf(Loop("%a = aten.add.Tensor(%x, %x) : f32[2,3]\n"
                                   "%b = aten.relu(%a) : f32[2,3]\n"
                                   "return %b, %n",
                                   "%y, %j")));
  const Plan& body = *ControlOf(*plan).bodies[1];
  ASSERT_EQ(body.steps().size(), 2u);
  EXPECT_THAT(body.ToText(), AllOf(HasSubstr("mica.elementwise"),
                                   Not(HasSubstr("aten.relu"))));
  EXPECT_THAT(plan->ToText(), HasSubstr("      1: mica.elementwise"));
}

// Both sides need scratch memory, of 3 and of 2 times 4000 bytes.
constexpr char kScratch[] = R"(program @p(%x: f32[1000], %p: bool[]) {
  %y = mica.if(%p, [%x]) : f32[1000]
    then(%x: f32[1000]) {
      %a = aten.cumsum(%x, 0) : f32[1000]
      %b = aten.cumsum(%a, 0) : f32[1000]
      %c = aten.stack([%a, %b, %a]) : f32[3,1000]
      %d = aten.sum.dim_IntList(%c, [0]) : f32[1000]
      return %d
    }
    else(%x: f32[1000]) {
      %a = aten.stack([%x, %x]) : f32[2,1000]
      %d = aten.sum.dim_IntList(%a, [0]) : f32[1000]
      return %d
    }
  %z = aten.cumsum(%y, 0) : f32[1000]
  return %z
}
)";

TEST(ControlTest, BranchesShareTheirMemory) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, PlanOf(kScratch));
  const ControlPlan& control = ControlOf(*plan);
  const int64_t then = control.bodies[0]->arena_bytes();
  const int64_t other = control.bodies[1]->arena_bytes();
  EXPECT_GE(then, AlignUp(4000) * 2 + AlignUp(12000));
  EXPECT_GE(other, AlignUp(8000));
  EXPECT_EQ(control.scratch_bytes, std::max(then, other));
  EXPECT_EQ(plan->arena_bytes(), control.scratch_bytes + AlignUp(4000));
}

TEST(ControlTest, ALoopCarriesInTwoHomesThatNothingElseTakes) {
  constexpr char kText[] = R"(program @p(%x: f32[1000], %i: i64[]) {
  %w = aten.cumsum(%x, 0) : f32[1000]
  %y, %j = mica.while([%x, %i], [%w]) : f32[1000], i64[]
    cond(%x: f32[1000], %i: i64[], %w: f32[1000]) {
      %p = aten.lt.Scalar(%i, 3) : bool[]
      return %p
    }
    body(%x: f32[1000], %i: i64[], %w: f32[1000]) {
      %n = aten.add.Scalar(%i, 1) : i64[]
      %a = aten.cumsum(%x, 0) : f32[1000]
      %b = aten.add.Tensor(%a, %w) : f32[1000]
      return %b, %n
    }
  %z = aten.cumsum(%y, 0) : f32[1000]
  return %z
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, PlanOf(kText));
  const ControlPlan& control = ControlOf(*plan);
  ASSERT_EQ(control.carried.size(), 2u);
  // %w, %y and its spare home live through the loop. The body's %a dies where
  // %b is written, and lies there from the beginning.
  EXPECT_GE(plan->arena_bytes(), 3 * AlignUp(4000));
  EXPECT_EQ(control.bodies[1]->arena_bytes(), 0);
  EXPECT_EQ(control.arena_offset, AlignUp(1) + AlignUp(4000) + 2 * AlignUp(8));
}

TEST(ControlTest, ABranchIsOneStepOfOneStream) {
  constexpr char kText[] = R"(program @p(%x: f32[1000], %p: bool[]) {
  %y = mica.if(%p, [%x]) : f32[1000]
    then(%x: f32[1000]) {
      %a = aten.cumsum(%x, 0) : f32[1000]
      return %a
    }
    else(%x: f32[1000]) {
      return %x
    }
  %z = aten.cumsum(%x, 0) : f32[1000]
  %s = aten.add.Tensor(%y, %z) : f32[1000]
  return %s
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto plan,
      PlanOf(kText, {.num_streams = 2, .wait_nanoseconds = 0}));
  EXPECT_EQ(plan->streams().num_streams, 2);
  MICA_EXPECT_OK(CheckHappensBefore(AccessesOf(*plan, 0, plan->num_compute()),
                                    plan->streams()));
}

TEST(ControlTest, APlanFromBytesIsTheSame) {
  for (const std::string& text :
       {std::string(kScratch),
        Loop("%a = aten.add.Tensor(%x, %x) : f32[2,3]\n"
             "%b = aten.relu(%a) : f32[2,3] @ \"m.py\":8\n"
             "return %b, %n",
             "%y, %j")}) {
    const PlanOptions options;
    MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                              ParseProgram(text, AllOps()));
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto plan, Plan::Build(program, AllOps(), AllKernels(), options));
    const PlanKey key = PlanKeyOf(program, options);
    MICA_ASSERT_OK_AND_ASSIGN(const std::string bytes,
                              EncodePlan(key, *plan, AllOps()));
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto again,
        DecodePlan(bytes, key, program, AllOps(), AllKernels(), options));
    EXPECT_EQ(again->ToText(), plan->ToText());
    EXPECT_EQ(again->origins(), plan->origins());
    EXPECT_EQ(ToText(again->program()), ToText(plan->program()));
  }
}

TEST(ControlTest, SizesReachBodies) {
  constexpr char kText[] = R"(program @p(%x: f32[n,3], %p: bool[]) {
  %y = mica.if(%p, [%x]) : f32[n,3]
    then(%x: f32[n,3]) {
      %a = aten.relu(%x) : f32[n,3]
      return %a
    }
    else(%x: f32[n,3]) {
      return %x
    }
  return %y
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(kText, AllOps()));
  EXPECT_FALSE(program.is_static());
  MICA_ASSERT_OK_AND_ASSIGN(const Program fixed,
                            Specialise(program, {{"n", 2}}, AllOps()));
  EXPECT_TRUE(fixed.is_static());
  EXPECT_EQ(ToText(fixed), absl::StrReplaceAll(kText, {{"[n,3]", "[2,3]"}}));
  MICA_EXPECT_OK(Plan::Build(fixed, AllOps(), AllKernels(), {}));
}

TEST(ControlTest, NamesAnOpInABodyThatHasNoKernel) {
  constexpr char kText[] = R"(program @p(%x: f32[2], %p: bool[]) {
  %y = mica.if(%p, [%x]) : f32[2] @ "m.py":3
    then(%x: f32[2]) {
      opaque "aten::foo(Tensor x) -> Tensor"
      %a = aten.foo(%x) : f32[2] @ "m.py":4
      return %a
    }
    else(%x: f32[2]) {
      return %x
    }
  return %y
}
)";
  EXPECT_THAT(PlanOf(kText),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("mica.if (m.py:3): then: aten.foo (m.py:4): "
                                 "opaque operator aten.foo")));
}

}  // namespace
}  // namespace mica
