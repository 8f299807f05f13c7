#include "analysis/schedule/cut.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/content.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  %"h to 1" = mica.send(%h, 1) : f32[4,8]
  return %"h to 1"
}
)");
  EXPECT_EQ(ToText(cut.stages[1].program),
            R"(program @net(%"h to 1": f32[4,8]) {
  %w1 = variable "b.weight" : f32[8,8]
  %h = mica.receive(%"h to 1", 0) : f32[4,8]
  %t1 = aten.t(%w1) : f32[8,8]{1,8}
  %y = aten.mm(%h, %t1) : f32[4,8]
  return %y
}
)");
  EXPECT_EQ(cut.stages[0].cost, cut.stages[1].cost);
  EXPECT_THAT(cut.fetches, ElementsAre("y"));
  EXPECT_THAT(cut.accumulators, ElementsAre());
}

// They have one Plan: which device a message is for is a label.
TEST(CutTest, StagesInTheMiddleAreEqualButForLabels) {
  std::string text = "program @net(%x0: f32[8,8]) {\n";
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&text, "  %w", i, " = variable \"w", i,
                    "\" : f32[8,8]\n  %x", i + 1, " = aten.mm(%x", i, ", %w", i,
                    ") : f32[8,8]\n");
  }
  text.append("  return %x4\n}\n");
  MICA_ASSERT_OK_AND_ASSIGN(const CutProgram cut, Cut(text, {.num_stages = 4}));
  ASSERT_EQ(cut.stages.size(), 4);
  EXPECT_THAT(ToText(cut.stages[1].program), HasSubstr("mica.send(%x2, 2)"));
  EXPECT_THAT(ToText(cut.stages[2].program), HasSubstr("mica.send(%x3, 3)"));
  EXPECT_EQ(ContentOf(cut.stages[1].program), ContentOf(cut.stages[2].program));
  EXPECT_NE(ContentOf(cut.stages[0].program), ContentOf(cut.stages[1].program));
}

TEST(CutTest, NothingIsSentToADevicesOwnStages) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const CutProgram cut,
      Cut(kForward, {.num_stages = 2, .device_of_stage = {0, 0}}));
  EXPECT_THAT(ToText(cut.stages[0].program), HasSubstr("return %h\n"));
  EXPECT_THAT(ToText(cut.stages[1].program), HasSubstr("@net(%h: f32[4,8])"));
  EXPECT_THAT(Cut(kForward, {.num_stages = 2, .device_of_stage = {0}}),
              StatusIs(kInvalid, HasSubstr("each of 2 stages, got 1")));
}

// Two layers as autograd writes them, with Adam's kind of state.
constexpr char kTrained[] = R"(program @step(%x: f32[4,8], %lr: f32[1]) {
  %w0 = variable "a.weight" : f32[8,8]
  %m0 = variable "a.momentum" : f32[8,8]
  %w1 = variable "b.weight" : f32[8,8]
  %h = aten.mm(%x, %w0) : f32[4,8] in "net.a"
  %r = aten.relu(%h) : f32[4,8] in "net"
  %y = aten.mm(%r, %w1) : f32[4,8] in "net.b.inner"
  %loss = aten.sum(%y) : f32[]
  %one = aten.ones_like(%loss) : f32[]
  %gy = aten.expand(%one, [4,8]) : f32[4,8]{0,0} backward ""
  %rt = aten.t(%r) : f32[8,4]{1,8} backward "net.b.inner"
  %g1 = aten.mm(%rt, %gy) : f32[8,8] backward "net.b.inner"
  %v1 = aten.t(%w1) : f32[8,8]{1,8} backward "net.b.inner"
  %gr = aten.mm(%gy, %v1) : f32[4,8] backward "net.b.inner"
  %gh = aten.threshold_backward(%gr, %r, 0) : f32[4,8] backward "net"
  %xt = aten.t(%x) : f32[8,4]{1,8} backward "net.a"
  %g0 = aten.mm(%xt, %gh) : f32[8,8] backward "net.a"
  %n0 = aten.add.Tensor(%m0, %g0) : f32[8,8]
  %s0 = aten.mul.Tensor(%n0, %lr) : f32[8,8]
  %u0 = aten.sub.Tensor(%w0, %s0) : f32[8,8]
  %s1 = aten.mul.Tensor(%g1, %lr) : f32[8,8]
  %u1 = aten.sub.Tensor(%w1, %s1) : f32[8,8]
  update "a.weight" = %u0
  update "a.momentum" = %n0
  update "b.weight" = %u1
  return %loss
}
)";

std::string TextOf(const CutProgram& cut, JobClass jobs) {
  for (const CutProgram::Stage& stage : cut.stages) {
    if (stage.jobs == jobs) return ToText(stage.program);
  }
  return "";
}

TEST(CutTest, ModulesStartStages) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const CutProgram cut,
      Cut(kTrained, {.num_stages = 2, .scopes = {"net.b"}}));
  EXPECT_THAT(TextOf(cut, {JobType::kForward, 0}),
              HasSubstr("%\"r to 1\" = mica.send(%r, 1)"));
  EXPECT_THAT(TextOf(cut, {JobType::kForward, 1}),
              HasSubstr("%r = mica.receive(%\"r to 1\", 0)"));
  EXPECT_THAT(TextOf(cut, {JobType::kBackward, 1}),
              HasSubstr("%\"gr to 0\" = mica.send(%gr, 0)"));
}

TEST(CutTest, FindsGradientsOfBackwardOps) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const CutProgram cut,
      Cut(kTrained, {.num_stages = 2, .scopes = {"net.b"}}));
  EXPECT_THAT(cut.accumulators, ElementsAre("sum of gradients: a.weight",
                                            "sum of gradients: b.weight"));
  EXPECT_THAT(TextOf(cut, {JobType::kUpdate, 0}),
              HasSubstr("update \"a.momentum\""));
  EXPECT_THAT(TextOf(cut, {JobType::kUpdate, 1}),
              HasSubstr("update \"b.weight\""));
}

// The gradients of both layers are scaled by their global norm.
std::string ScaledText() {
  std::string text = kTrained;
  const size_t at = text.find("  %n0 = aten.add");
  text.insert(at, R"(  %q0 = aten.linalg_vector_norm(%g0) : f32[]
  %q1 = aten.linalg_vector_norm(%g1) : f32[]
  %q = aten.stack([%q0, %q1]) : f32[2]
  %norm = aten.linalg_vector_norm(%q) : f32[]
  %c0 = aten.div.Tensor(%g0, %norm) : f32[8,8]
  %c1 = aten.div.Tensor(%g1, %norm) : f32[8,8]
)");
  text.replace(text.find("%m0, %g0"), 8, "%m0, %c0");
  text.replace(text.find("(%g1, %lr)"), 10, "(%c1, %lr)");
  return text;
}

TEST(CutTest, EachStageReducesItsGradientsForAllUpdates) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const CutProgram cut,
      Cut(ScaledText(), {.num_stages = 2, .scopes = {"net.b"}}));
  EXPECT_EQ(TextOf(cut, {JobType::kReduce, 1}), R"(program @step() {
  %"sum of g1" = variable "sum of gradients: b.weight" : f32[8,8]
  %q1 = aten.linalg_vector_norm(%"sum of g1") : f32[]
  %"q1 to 0" = mica.send(%q1, 0) : f32[]
  return %q1, %"q1 to 0"
}
)");
  EXPECT_EQ(TextOf(cut, {JobType::kUpdate, 1}),
            R"(program @step(%lr: f32[1], %"q0 to 1": f32[], %q1: f32[]) {
  %w1 = variable "b.weight" : f32[8,8]
  %"sum of g1" = variable "sum of gradients: b.weight" : f32[8,8]
  %q0 = mica.receive(%"q0 to 1", 0) : f32[]
  %q = aten.stack([%q0, %q1]) : f32[2]
  %norm = aten.linalg_vector_norm(%q) : f32[]
  %c1 = aten.div.Tensor(%"sum of g1", %norm) : f32[8,8]
  %s1 = aten.mul.Tensor(%c1, %lr) : f32[8,8]
  %u1 = aten.sub.Tensor(%w1, %s1) : f32[8,8]
  update "b.weight" = %u1
  return
}
)");
  // The momentum is updated with the weight that reads it.
  EXPECT_THAT(TextOf(cut, {JobType::kUpdate, 0}),
              HasSubstr("update \"a.momentum\" = %n0"));
}

TEST(CutTest, ReducesNothingWithinOneStage) {
  MICA_ASSERT_OK_AND_ASSIGN(const CutProgram cut, Cut(ScaledText(), {}));
  EXPECT_EQ(TextOf(cut, {JobType::kReduce, 0}), "");
  MICA_ASSERT_OK_AND_ASSIGN(const CutProgram asked,
                            Cut(kTrained, {.reduce = true}));
  EXPECT_EQ(TextOf(asked, {JobType::kReduce, 0}),
            "program @step() {\n  return\n}\n");
}

TEST(CutTest, WhatIsComputedFromGradientsIsReturned) {
  std::string text = ScaledText();
  text.replace(text.find("return %loss"), 12, "return %loss, %norm, %q1, %d1");
  text.insert(text.find("  %norm"), "  %d1 = aten.neg(%g1) : f32[8,8]\n");
  MICA_ASSERT_OK_AND_ASSIGN(const CutProgram cut,
                            Cut(text, {.num_stages = 2, .scopes = {"net.b"}}));
  EXPECT_THAT(cut.fetches, ElementsAre("loss", "norm", "q1", "d1"));
  EXPECT_THAT(TextOf(cut, {JobType::kUpdate, 0}), HasSubstr("return %norm\n"));
  // What another stage reads, too, comes from where that has it from.
  EXPECT_THAT(TextOf(cut, {JobType::kReduce, 1}), HasSubstr("return %q1, "));
  EXPECT_THAT(TextOf(cut, {JobType::kUpdate, 1}), HasSubstr("return %d1\n"));
  EXPECT_THAT(TextOf(cut, {JobType::kForward, 1}), HasSubstr("return %loss, "));
}

TEST(CutTest, OnlyNumbersAreKeptForTheUpdateOfTheirStage) {
  std::string text = ScaledText();
  text.insert(text.find("  %q0"), "  %e0 = aten.neg(%g0) : f32[8,8]\n");
  for (size_t at; (at = text.find("(%g0, %norm)")) != std::string::npos;) {
    text.replace(at, 12, "(%e0, %norm)");
  }
  text.replace(text.find("norm(%g0)"), 9, "norm(%e0)");
  MICA_ASSERT_OK_AND_ASSIGN(const CutProgram cut,
                            Cut(text, {.num_stages = 2, .scopes = {"net.b"}}));
  EXPECT_THAT(TextOf(cut, {JobType::kReduce, 0}), HasSubstr("return %q0, "));
  EXPECT_THAT(TextOf(cut, {JobType::kUpdate, 0}),
              HasSubstr("%e0 = aten.neg(%\"sum of g0\")"));
}

TEST(CutTest, SumsOfGradientsGoWhereTheyAreJoined) {
  std::string text = ScaledText();
  const size_t at = text.find("%q = aten.stack");
  text.replace(at, text.find("%norm", at) - at,
               "%q = aten.stack([%g0, %g1]) : f32[2,8,8]\n  ");
  const CutOptions options = {.num_stages = 2, .scopes = {"net.b"}};
  MICA_ASSERT_OK_AND_ASSIGN(const CutProgram cut, Cut(text, options));
  EXPECT_THAT(TextOf(cut, {JobType::kReduce, 0}),
              HasSubstr("%\"sum of g0 to 1\" = mica.send(%\"sum of g0\", 1)"));
  EXPECT_THAT(TextOf(cut, {JobType::kUpdate, 1}),
              HasSubstr("%q = aten.stack([%\"sum of g0\", %\"sum of g1\"])"));
  // One device has both sums.
  CutOptions together = options;
  together.device_of_stage = {0, 0};
  MICA_ASSERT_OK_AND_ASSIGN(const CutProgram one, Cut(text, together));
  EXPECT_THAT(TextOf(one, {JobType::kUpdate, 1}),
              HasSubstr("variable \"sum of gradients: a.weight\""));
}

TEST(CutTest, BackwardOpsGoWhereTheirModuleIs) {
  // The values of "net" are the first stage's, but at the last op of it.
  MICA_ASSERT_OK_AND_ASSIGN(
      const CutProgram cut,
      Cut(kTrained, {.num_stages = 2, .scopes = {"net.b"}}));
  EXPECT_THAT(TextOf(cut, {JobType::kBackward, 0}),
              HasSubstr("%gh = aten.threshold_backward"));
}

TEST(CutTest, NamesTheModulesThatThereAre) {
  EXPECT_THAT(Cut(kTrained, {.num_stages = 2, .scopes = {"net.c"}}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("stage 1: module \"net.c\" runs no forward "
                                 "op; there are net, net.a, net.b, "
                                 "net.b.inner")));
  EXPECT_THAT(Cut(kTrained, {.num_stages = 3, .scopes = {"net.b", "net.a"}}),
              StatusIs(kInvalid, HasSubstr("stage 2: module \"net.a\" doesn't "
                                           "run after \"net.b\"")));
  EXPECT_THAT(Cut(kTrained, {.num_stages = 3, .scopes = {"net.b"}}),
              StatusIs(kInvalid, HasSubstr("each of 3 stages but the first, "
                                           "got 1")));
  EXPECT_THAT(Cut(kForward, {.num_stages = 2, .scopes = {"a"}}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("the Program tells of no module")));
}

TEST(CutTest, RefusesGradientsOfNoVariable) {
  std::string text = kTrained;
  text.replace(text.find("(%x, %w0)"), 9, "(%x, %w1)");
  EXPECT_THAT(
      Cut(text, {.num_stages = 2}),
      StatusIs(kInvalid, HasSubstr("%g0 of aten.mm is the gradient of none")));
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

TEST(CutTest, LeavesTheOrderOfRandomNumbersToWhoKeepsIt) {
  std::string text = kForward;
  text.insert(text.find("  %w0"),
              "  opaque \"aten::noise(Tensor x) -> Tensor\"\n");
  text.insert(text.find("  %t1"), "  %n = aten.noise(%h) : f32[4,8]\n");
  text.replace(text.find("(%h, %t1)"), 9, "(%n, %t1)");
  EXPECT_THAT(Cut(text, {.num_stages = 2}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("aten.noise: a Schedule can't keep the order "
                                 "of random numbers")));
  MICA_ASSERT_OK_AND_ASSIGN(
      const CutProgram cut,
      Cut(text, {.num_stages = 2, .keeps_random_order = true}));
  EXPECT_EQ(cut.stages.size(), 2);
  EXPECT_THAT(ToText(cut.stages[0].program) + ToText(cut.stages[1].program),
              HasSubstr("%n = aten.noise(%h)"));
}

TEST(CutTest, MatrixProductsCostTheirMultiplications) {
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(kForward, AllOps()));
  EXPECT_EQ(StageCostOf(program, program.ops()[0]), 0);
  EXPECT_EQ(StageCostOf(program, program.ops()[1]), 4 * 8 * 8);
}

}  // namespace
}  // namespace mica
