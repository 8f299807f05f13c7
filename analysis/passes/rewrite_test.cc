#include "analysis/passes/rewrite.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "analysis/passes/dead_ops.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

using ::testing::ElementsAre;

Program ParseOps(absl::string_view ops) {
  auto program = ParseProgram(absl::StrCat(R"text(program @p(%x: f32[4,2]) {
  opaque "test::check(Tensor self) -> ()"
  %v = variable "v" : f32[4,2]
)text",
                                           ops, "}\n"),
                              AllOps());
  EXPECT_THAT(program, IsOk());
  return *std::move(program);
}

// `ops` of which so many are left.
void ExpectLeft(absl::string_view ops, size_t num_left) {
  SCOPED_TRACE(ops);
  const Program program = ParseOps(ops);
  MICA_ASSERT_OK_AND_ASSIGN(const Program lean,
                            RemoveDeadOps(program, AllOps()));
  EXPECT_EQ(lean.ops().size(), num_left);
  EXPECT_EQ(MayHaveDeadOps(program), num_left < program.ops().size());
}

TEST(RewriteTest, TellsWhetherOpsAreDead) {
  ExpectLeft("  %y = aten.relu(%x) : f32[4,2]\n  return %y\n", 1);
  ExpectLeft("  %y = aten.relu(%x) : f32[4,2]\n  update %v = %y\n  return %x\n",
             1);
  ExpectLeft("  %y = aten.relu(%x) : f32[4,2]\n  return %x\n", 0);
  // One is read by a dead one alone.
  ExpectLeft(R"(  %y = aten.relu(%x) : f32[4,2]
  %z = aten.neg(%y) : f32[4,2]
  %w = aten.neg(%x) : f32[4,2]
  return %w
)",
             1);
  ExpectLeft("  %y = aten.t(%x) : f32[2,4]{1,2}\n  return %x\n", 0);
  // Without results it is there for what it does.
  ExpectLeft("  test.check(%x)\n  return %x\n", 1);
  // Of several results one is enough.
  ExpectLeft(R"(  %a, %b = aten.max.dim(%x, 1) : f32[4], i64[4]
  return %b
)",
             1);
}

// What a Rewriter makes of a Program.
Program CopyOf(const Program& program) {
  Rewriter rewriter(program, AllOps());
  EXPECT_THAT(rewriter.CopyDeclarations(), IsOk());
  for (const Op& op : program.ops()) EXPECT_THAT(rewriter.CopyOp(op), IsOk());
  auto copy = rewriter.Finish();
  EXPECT_THAT(copy, IsOk());
  return *std::move(copy);
}

TEST(RewriteTest, SharesTheListOfVariables) {
  const Program program = ParseOps("  return %x\n");
  Program copy = CopyOf(program);
  EXPECT_EQ(copy.variables().data(), program.variables().data());
  const Program later = CopyOf(std::exchange(copy, {}));
  EXPECT_EQ(ToText(later), ToText(program));
}

TEST(RewriteTest, HasItsOwnVariablesWhereTheyDiffer) {
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(R"text(program @p(%x: f32[2]) {
  %v = variable "v" : f32[2]
  %w = variable "w" : f32[2]
  return %x
}
)text",
                                         AllOps()));
  const absl::Span<const Variable> from = program.variables();
  // Others' numbers: without %x they come sooner.
  ProgramBuilder moved(AllOps(), "p");
  for (const Variable& variable : from) {
    MICA_ASSERT_OK(moved.CopyVariable(program, variable).status());
  }
  MICA_ASSERT_OK_AND_ASSIGN(const Program without_input, moved.Build({}));
  ASSERT_EQ(without_input.variables().size(), 2u);
  EXPECT_EQ(without_input.variables()[1].name, "w");
  EXPECT_EQ(without_input.variables()[1].value, 1);
  // Some of them, or more.
  for (const size_t count : {1, 2}) {
    ProgramBuilder builder(AllOps(), "p");
    MICA_ASSERT_OK(builder.AddInput("x", program.type(0)).status());
    for (const Variable& variable : from.first(count)) {
      MICA_ASSERT_OK(builder.CopyVariable(program, variable).status());
    }
    EXPECT_FALSE(builder.AddVariable("again", "v", program.type(0)).ok());
    if (count == 2) {
      MICA_ASSERT_OK(builder.AddVariable("u", "u", program.type(0)).status());
    }
    MICA_ASSERT_OK_AND_ASSIGN(const Program made, builder.Build({}));
    ASSERT_EQ(made.variables().size(), 2 * count - 1);
    EXPECT_NE(made.variables().data(), from.data());
    for (const Variable& variable : made.variables()) {
      EXPECT_EQ(made.value(variable.value).kind, ValueKind::kVariable);
    }
    EXPECT_EQ(made.variables()[0].name, "v");
  }
  EXPECT_EQ(program.variables().size(), 2u);
}

TEST(RewriteTest, FindsWhoReadsWhat) {
  const Program program = ParseOps(R"(  %a = aten.t(%x) : f32[2,4]{1,2}
  %b = aten.mm(%x, %a) : f32[4,4]
  %c = aten.mm(%b, %x) : f32[4,2]
  %d = aten.t(%c) : f32[2,4]{1,2}
  update %v = %c
  return %d, %c
)");
  const Reads reads = FindReads(program);
  const auto of = [&](absl::string_view name, const auto& list) {
    return list[program.FindValue(name)];
  };
  EXPECT_THAT(reads.views, ElementsAre(0, 3));
  EXPECT_EQ(of("x", reads.uses), 3);
  EXPECT_EQ(of("x", reads.last_op), 2);
  EXPECT_EQ(of("c", reads.uses), 3);
  EXPECT_EQ(of("c", reads.last_op), 3);
  EXPECT_EQ(of("d", reads.last_op), -1);
  EXPECT_EQ(of("v", reads.uses), 0);
  EXPECT_FALSE(reads.has_dead_ops);
}

}  // namespace
}  // namespace mica
