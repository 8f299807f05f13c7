#include "framework/text/repeated_lines.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<TensorTypes> SameAsOperand(const OpCall& call) {
  return TensorTypes{
      TensorType{.dtype = call.Type(0).dtype, .dims = call.Type(0).dims}};
}

const OpRegistry& LineOps() {
  static const OpRegistry& registry = *[] {
    auto* ops = new OpRegistry;
    ops->Add(OpDef("aten::relu(Tensor self) -> Tensor").Infer(SameAsOperand));
    ops->Add(OpDef("aten::sum(Tensor self) -> Tensor")
                 .Infer([](const OpCall&) -> absl::StatusOr<TensorTypes> {
                   return TensorTypes{TensorType{.dtype = DType::kF32}};
                 }));
    ops->Add(OpDef("aten::add.Tensor(Tensor self, Tensor other, *, "
                   "Scalar alpha=1) -> Tensor")
                 .Infer(SameAsOperand));
    return ops;
  }();
  return registry;
}

// A Program of two inputs with these lines in it.
std::string ProgramOf(absl::string_view lines) {
  return absl::StrCat("program @p(%x: f32[2], %y: f32[3]) {\n", lines, "}\n");
}

TEST(RepeatedLinesTest, TellsNamesFromTheRest) {
  const std::string text =
      "%1 = aten.add.Tensor(%x, %0, alpha=2) : f32[2] @ \"a%b.py\":3\n"
      "%33 = aten.add.Tensor(%1, %y.2, alpha=2) : f32[2] @ \"a%b.py\":3\n"
      "%2 = aten.add.Tensor(%1, %1, alpha=3) : f32[2] @ \"a%b.py\":3\n";
  RepeatedLines lines(text);
  ASSERT_TRUE(lines.Read(0));
  EXPECT_THAT(lines.results(), ElementsAre("1"));
  EXPECT_THAT(lines.operands(), ElementsAre("x", "0"));
  EXPECT_THAT(lines.Find(), IsEmpty());
  lines.Learn(7);
  ASSERT_TRUE(lines.Read(lines.end() + 1));
  EXPECT_THAT(lines.results(), ElementsAre("33"));
  EXPECT_THAT(lines.operands(), ElementsAre("1", "y.2"));
  EXPECT_THAT(lines.Find(), ElementsAre(7));
  ASSERT_TRUE(lines.Read(lines.end() + 1));
  EXPECT_THAT(lines.Find(), IsEmpty());
  EXPECT_EQ(lines.end(), text.size() - 1);
}

TEST(RepeatedLinesTest, AreGuessedByTheLineBefore) {
  const std::string text =
      "%1 = aten.relu(%x) : f32[2]\n"
      "%2 = aten.add.Tensor(%1, %x)\n"
      "%3 = aten.relu(%2) : f32[2]\n"
      "%4 = aten.add.Tensor(%3, %2)\n"
      "%5 = aten.relu(%4) : f32[2]\n"
      "%6 = aten.add.Tensor(%5, %4) : f32[2]\n"
      "%7 = aten.relu(%4) : f32[2]\n"
      "%8 = aten.add.Tensor(%, %4)";
  RepeatedLines lines(text);
  std::vector<std::vector<OpId>> found;
  size_t at = 0;
  for (OpId op = 0; op < 7; ++op) {
    ASSERT_TRUE(lines.Read(at));
    found.emplace_back(lines.Find().begin(), lines.Find().end());
    if (found.back().empty()) lines.Learn(op);
    at = lines.end() + 1;
  }
  using Ops = std::vector<OpId>;
  EXPECT_THAT(found,
              ElementsAre(Ops{}, Ops{}, Ops{0}, Ops{1}, Ops{0}, Ops{}, Ops{0}));
  EXPECT_THAT(lines.operands(), ElementsAre("4"));
  EXPECT_FALSE(lines.Read(at));
}

TEST(RepeatedLinesTest, KnowOperandsOfSeveralTypes) {
  std::string lines;
  for (int i = 0; i < 6; ++i) {
    absl::StrAppend(&lines, "  %", i, " = aten.sum(%", i % 2 == 0 ? "x" : "y",
                    ") : f32[]\n");
  }
  const std::string text = ProgramOf(absl::StrCat(lines, "  return %5\n"));
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(text, LineOps()));
  EXPECT_EQ(ToText(program), text);
}

TEST(RepeatedLinesTest, LeavesWhatItDoesntUnderstand) {
  for (const std::string text :
       {"%\"odd name\" = aten.relu(%x) : f32[2]", "%1 = f(%x) // %2",
        "%1 = aten.add.Tensor(other=%x, self=%y) : f32[2]",
        "%1 = f(%x) @ \"a\\\"b\":3", "%1 = f(%x) @ \"a", "%", "%1, %2"}) {
    EXPECT_FALSE(RepeatedLines(text).Read(0)) << text;
  }
}

TEST(RepeatedLinesTest, ParseToTheSameProgram) {
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    const std::string before = i == 0 ? "x" : absl::StrCat(2 * i - 1);
    absl::StrAppend(&lines, "  %", 2 * i, " = aten.relu(%", before,
                    ") : f32[2] @ \"m.py\":3 in \"a\"\n", "  %", 2 * i + 1,
                    " = aten.add.Tensor(%", 2 * i, ", %", before,
                    ", alpha=2) : f32[2]\n");
  }
  const std::string text = ProgramOf(absl::StrCat(lines, "  return %39\n"));
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(text, LineOps()));
  EXPECT_EQ(ToText(program), text);
  EXPECT_EQ(program.ops()[38].source.ToString(), "m.py:3");
  EXPECT_EQ(program.ops()[38].source.scope, program.ops()[0].source.scope);
}

TEST(RepeatedLinesTest, GoOnInTheNextLine) {
  // The second op has a place, the third a type in its second line.
  const std::string text = ProgramOf(
      "  %0 = aten.relu(%x) : f32[2]\n"
      "  %1 = aten.relu(%x) : f32[2]\n    @ \"m.py\":4\n"
      "  %2 = aten.relu(%x)\n    : f32[2]\n"
      "  %3 = aten.relu(%x)\n    : f32[2]\n"
      "  return %3\n");
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(text, LineOps()));
  ASSERT_EQ(program.ops().size(), 4);
  EXPECT_EQ(program.ops()[1].source.ToString(), "m.py:4");
  EXPECT_EQ(program.ops()[3].source.line, 0);
}

TEST(RepeatedLinesTest, AreCheckedLikeOthers) {
  const auto error_of = [](absl::string_view line) {
    return ParseProgram(
               ProgramOf(absl::StrCat("  %0 = aten.relu(%x) : f32[2]\n", line,
                                      "\n  return %0\n")),
               LineOps())
        .status();
  };
  EXPECT_THAT(error_of("  %1 = aten.relu(%y) : f32[2]"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("3:8: aten.relu: result is f32[3], but the "
                                 "program says f32[2]")));
  EXPECT_THAT(error_of("  %1 = aten.relu(%9) : f32[2]"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("3:18: aten.relu: %9 is not defined")));
  EXPECT_THAT(error_of("  %0 = aten.relu(%x) : f32[2]"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("%0 is defined twice")));
  EXPECT_THAT(error_of("  %1 = aten.relu(%x) : f32[2], f32[2]"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("wants a type for each of 1 results, got 2")));
  EXPECT_THAT(error_of("  update %x = %0\n  %1 = aten.relu(%x) : f32[2]"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("update or return after an update")));
}

}  // namespace
}  // namespace mica
