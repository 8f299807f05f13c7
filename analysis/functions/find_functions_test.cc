#include "analysis/functions/find_functions.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "analysis/functions/inline_calls.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/verify.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/control_flow.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

// Eight ops on %IN, which give %OUT; `change` alters the layer's text.
std::string Layer(
    int index,
    std::initializer_list<std::pair<absl::string_view, absl::string_view>>
        change = {}) {
  const std::string text = R"(  %tN = aten.t(%wN) : f32[16,16]{1,16}
  %hN = aten.mm(%I, %tN) : f32[8,16]
  %bN = aten.add.Tensor(%hN, %cN) : f32[8,16]
  %rN = aten.relu(%bN) : f32[8,16]
  %sN = aten.mul.Scalar(%rN, 0.5) : f32[8,16]
  %eN = aten.exp(%sN) : f32[8,16]
  %nN = aten.neg(%eN) : f32[8,16]
  %yN = aten.add.Tensor(%I, %nN) : f32[8,16]
)";
  return absl::StrReplaceAll(
      absl::StrReplaceAll(text, change),
      {{"%I", index == 0 ? "%x" : absl::StrCat("%y", index - 1)},
       {"N", absl::StrCat(index)}});
}

std::string Net(const std::vector<std::string>& layers,
                absl::string_view more_results = "") {
  std::string text = "program @net(%x: f32[8,16]) {\n";
  for (size_t i = 0; i < layers.size(); ++i) {
    absl::StrAppend(&text, "  %w", i, " = variable \"w", i,
                    "\" : f32[16,16]\n  %c", i, " = variable \"c", i,
                    "\" : f32[16]\n");
  }
  for (const std::string& layer : layers) text.append(layer);
  absl::StrAppend(&text, "  return %y", layers.size() - 1, more_results,
                  "\n}\n");
  return text;
}

Program Find(const std::string& text) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  EXPECT_THAT(program, IsOk());
  absl::StatusOr<Program> found =
      FindFunctions(*program, AllOps(), {.least_saved = 8});
  EXPECT_THAT(found, IsOk());
  MICA_EXPECT_OK(Verify(*found));
  return *std::move(found);
}

int CountCalls(const Program& program) {
  int count = 0;
  for (const Op& op : program.ops()) {
    count += ControlKindOf(*op.def) == ControlKind::kCall;
  }
  return count;
}

TEST(FindFunctionsTest, EqualLayersAreOneFunction) {
  const Program found = Find(Net({Layer(0), Layer(1), Layer(2)}));
  EXPECT_EQ(FunctionsOf(found).size(), 1u);
  EXPECT_EQ(CountCalls(found), 3);
  EXPECT_EQ(found.ops().size(), 3u);
  const Program& function = *FunctionsOf(found)[0];
  EXPECT_EQ(function.ops().size(), 8u);
  EXPECT_EQ(function.inputs().size(), 3u);
  EXPECT_EQ(function.outputs().size(), 1u);
  MICA_ASSERT_OK_AND_ASSIGN(const Program inlined,
                            InlineCalls(found, AllOps()));
  MICA_EXPECT_OK(Verify(inlined));
  EXPECT_EQ(inlined.ops().size(), 24u);
  EXPECT_TRUE(FunctionsOf(inlined).empty());
}

TEST(FindFunctionsTest, WhatIsReadOutsideIsAResultAndAViewIsMadeAnew) {
  const Program found = Find(Net({Layer(0), Layer(1), Layer(2)}, ", %r1, %t0"));
  const std::string text = ToText(found);
  EXPECT_EQ(FunctionsOf(found)[0]->outputs().size(), 2u);
  // A view of a variable, which is outside anyway.
  EXPECT_THAT(text, HasSubstr("%t0 = aten.t(%w0)"));
  // Only the first layer's is read.
  EXPECT_THAT(text, Not(HasSubstr("%t1 = ")));
}

// What layers read is a view of each one's own variable: they are given that,
// once, and the view is the function's.
TEST(FindFunctionsTest, AViewOfWhatIsOutsideIsMadeInTheFunction) {
  std::string text = Net({Layer(0), Layer(1), Layer(2)});
  std::string views;
  for (int i = 0; i < 3; ++i) {
    const std::string view =
        absl::StrCat("  %t", i, " = aten.t(%w", i, ") : f32[16,16]{1,16}\n");
    text.erase(text.find(view), view.size());
    absl::StrAppend(&views, view);
    // So that a layer still has eight ops.
    const std::string last = absl::StrCat("  %y", i, " = aten.add");
    text.insert(text.find(last), absl::StrCat("  %v", i, " = aten.mm(%h", i,
                                              ", %t", i, ") : f32[8,16]\n"));
    text =
        absl::StrReplaceAll(text, {{absl::StrCat("%n", i, ") : f32[8,16]\n"),
                                    absl::StrCat("%v", i, ") : f32[8,16]\n")}});
  }
  text.insert(text.find("  %h0"), views);
  const Program found = Find(text);
  EXPECT_EQ(CountCalls(found), 3);
  const Program& function = *FunctionsOf(found)[0];
  EXPECT_EQ(function.ops()[0].def->name(), "aten.t");
  // Nothing reads %c1 any more, that anybody reads.
  EXPECT_EQ(function.inputs().size(), 2u);
  EXPECT_THAT(ToText(found), HasSubstr("(%y0, %w1)"));
  EXPECT_THAT(ToText(found), Not(HasSubstr("%t1 = ")));
}

TEST(FindFunctionsTest, LayersThatDifferAreNotShared) {
  for (const auto& change :
       std::vector<std::pair<absl::string_view, absl::string_view>>{
           {"0.5", "0.25"},                     // An argument.
           {"aten.exp(%sN)", "aten.exp(%rN)"},  // The wiring.
           {"aten.neg(%eN)", "aten.abs(%eN)"},  // An operator.
           {"(%I, %nN)", "(%x, %nN)"},  // It reads something else than %I.
           {"%cN)", "%c0)"}}) {
    SCOPED_TRACE(change.first);
    const Program found =
        Find(Net({Layer(0), Layer(1), Layer(2, {change}), Layer(3)}));
    for (const Op& op : found.ops()) {
      if (ControlKindOf(*op.def) != ControlKind::kCall) continue;
      // Whatever is shared, calls get the variables of their own layers.
      EXPECT_EQ(op.bodies[0], found.ops()[0].bodies[0]);
    }
    MICA_ASSERT_OK_AND_ASSIGN(const Program inlined,
                              InlineCalls(found, AllOps()));
    MICA_ASSERT_OK_AND_ASSIGN(
        Program given,
        ParseProgram(Net({Layer(0), Layer(1), Layer(2, {change}), Layer(3)}),
                     AllOps()));
    MICA_ASSERT_OK_AND_ASSIGN(given, RemoveDeadOps(std::move(given), AllOps()));
    ASSERT_EQ(inlined.ops().size(), given.ops().size());
    for (size_t i = 0; i < given.ops().size(); ++i) {
      EXPECT_EQ(inlined.ops()[i].def, given.ops()[i].def);
    }
  }
}

TEST(FindFunctionsTest, ASharedParameterIsAnArgumentLikeOthers) {
  const Program found = Find(
      Net({Layer(0), Layer(1, {{"%wN", "%w0"}}), Layer(2, {{"%wN", "%w0"}})}));
  EXPECT_EQ(CountCalls(found), 3);
  EXPECT_THAT(ToText(found), HasSubstr("(%w0, %y0, %c1)"));
}

TEST(FindFunctionsTest, NothingIsSharedOfWhatIsShort) {
  std::string text = "program @f(%x: f32[4]) {\n";
  for (int i = 0; i < 20; ++i) {
    absl::StrAppend(&text, "  %y", i, " = aten.relu(%",
                    i == 0 ? "x" : absl::StrCat("y", i - 1), ") : f32[4]\n");
  }
  absl::StrAppend(&text, "  return %y19\n}\n");
  const Program found = Find(text);
  for (const Program* function : FunctionsOf(found)) {
    EXPECT_GE(function->ops().size(), 8u);
  }
}

TEST(FindFunctionsTest, NewValuesOfVariablesAreResults) {
  std::vector<std::string> layers;
  std::string updates;
  for (int i = 0; i < 3; ++i) {
    layers.push_back(absl::StrCat(Layer(i), "  %u", i, " = aten.sub.Tensor(%c",
                                  i, ", %g", i, ") : f32[16]\n"));
    layers.back().insert(layers.back().find("  %n"),
                         absl::StrCat("  %g", i, " = aten.sum.dim_IntList(%e",
                                      i, ", [0]) : f32[16]\n"));
  }
  std::string text = Net(layers);
  for (int i = 0; i < 3; ++i) {
    absl::StrAppend(&updates, "  update \"c", i, "\" = %u", i, "\n");
  }
  text.insert(text.find("  return"), updates);
  const Program found = Find(text);
  EXPECT_EQ(CountCalls(found), 3);
  EXPECT_THAT(ToText(*FunctionsOf(found)[0]), HasSubstr("aten.sub"));
  EXPECT_THAT(ToText(found), HasSubstr("%y2, %u2 = mica.call"));
}

TEST(FindFunctionsTest, WhatIsShortIsNotWorthAFunction) {
  const std::string text = Net({Layer(0), Layer(1), Layer(2)});
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(text, AllOps()));
  MICA_ASSERT_OK_AND_ASSIGN(const Program found,
                            FindFunctions(program, AllOps()));
  EXPECT_EQ(CountCalls(found), 0);
}

// The product of a layer is read by the relu of the next, and by nothing else:
// begun anywhere else, copies would hand on a value between elementwise ops.
TEST(FindFunctionsTest, CopiesBeginWhereNoElementwiseOpsBecomeOne) {
  std::string text = "program @net(%x: f32[8,8]) {\n";
  for (int i = 0; i < 6; ++i) {
    absl::StrAppend(&text, "  %w", i, " = variable \"w", i, "\" : f32[8,8]\n");
  }
  std::string last = "%x";
  for (int i = 0; i < 6; ++i) {
    absl::StrAppend(&text, "  %r", i, " = aten.relu(", last, ") : f32[8,8]\n");
    last = absl::StrCat("%r", i);
    for (int k = 0; k < 7; ++k) {
      const std::string next = absl::StrCat("%n", i, "_", k);
      absl::StrAppend(&text, "  ", next, " = aten.exp(", last,
                      ") : f32[8,8]\n");
      last = next;
    }
    absl::StrAppend(&text, "  %m", i, " = aten.mm(", last, ", %w", i,
                    ") : f32[8,8]\n");
    last = absl::StrCat("%m", i);
  }
  absl::StrAppend(&text, "  return ", last, "\n}\n");
  const Program found = Find(text);
  EXPECT_EQ(CountCalls(found), 6);
  EXPECT_EQ(FunctionsOf(found)[0]->ops()[0].def->name(), "aten.relu");
}

// Two runs of adds that follow each other are one region: cut at each copy,
// they would be many.
TEST(FindFunctionsTest, AChainOfElementwiseOpsIsNotCut) {
  std::string text = "program @f(%x: f32[4]) {\n";
  std::string last = "%x";
  for (int i = 0; i < 40; ++i) {
    const std::string next = absl::StrCat("%y", i);
    absl::StrAppend(&text, "  ", next, " = ",
                    i % 8 == 0 ? "aten.relu(" : "aten.exp(", last,
                    ") : f32[4]\n");
    last = next;
  }
  absl::StrAppend(&text, "  return ", last, "\n}\n");
  EXPECT_EQ(CountCalls(Find(text)), 0);
}

}  // namespace
}  // namespace mica
