// Branches and loops as text.

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/content.h"
#include "framework/ir/control_flow.h"
#include "framework/text/text.h"

namespace mica {
namespace {

using testing::HasSubstr;

absl::StatusOr<TensorTypes> TypeOfFirst(const OpCall& call) {
  return TensorTypes{call.Type(0)};
}

const OpRegistry& ControlOps() {
  static const OpRegistry& registry = *[] {
    auto* ops = new OpRegistry;
    ops->Add(OpDef("aten::relu(Tensor self) -> Tensor").Infer(TypeOfFirst));
    ops->Add(
        OpDef("mica::if(Tensor predicate, Tensor[] operands) -> Tensor[]"));
    ops->Add(OpDef(
        "mica::while(Tensor[] initial, Tensor[] invariants) -> Tensor[]"));
    return ops;
  }();
  return registry;
}

constexpr char kNested[] = R"(program @nested(%x: f32[2], %p: bool[]) {
  %y, %q = mica.while([%x, %p], [%x]) : f32[2], bool[] @ "m.py":3
    cond(%x: f32[2], %p: bool[], %0: f32[2]) {
      return %p
    }
    body(%x: f32[2], %p: bool[], %w: f32[2]) {
      opaque "aten::foo(Tensor x) -> Tensor"
      %c = constant [1.0, 2.0] : f32[2]
      %z, %none = mica.if(%p, [%x, %c]) : f32[2], f32[0] @ "m.py":4
        then(%a: f32[2], %b: f32[2]) {
          %0 = aten.relu(%a) : f32[2]
          return %0, none
        }
        else(%a: f32[2], %b: f32[2]) {
          return %b, none
        }
      %t = aten.foo(%z) : f32[2] @ "m.py":5
      return %t, %p
    }
  return %y, %q
}
)";

absl::StatusOr<Program> ParseWith(absl::string_view from,
                                  absl::string_view to) {
  return ParseProgram(absl::StrReplaceAll(kNested, {{from, to}}), ControlOps());
}

TEST(ControlTextTest, ReadsBackWhatItPrints) {
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(kNested, ControlOps()));
  EXPECT_EQ(ToText(program), kNested);
  EXPECT_EQ(program.depth(), 2);
}

TEST(ControlTextTest, NumbersOpsAsTheyStandInTheText) {
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(kNested, ControlOps()));
  std::string names;
  OpId id = 0;
  ForEachOp(program, [&](const Op& op) {
    absl::StrAppend(&names, op.def->name(), " ");
    EXPECT_EQ(&OpAt(program, id++), &op);
  });
  EXPECT_EQ(names, "mica.while mica.if aten.relu aten.foo ");
  EXPECT_EQ(CountOps(program), 4);
  EXPECT_TRUE(HasEffect(program.ops()[0]));
  EXPECT_TRUE(IsOpaque(program.ops()[0]));
}

TEST(ControlTextTest, CountsBodiesAsContentButNotTheirLabels) {
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(kNested, ControlOps()));
  MICA_ASSERT_OK_AND_ASSIGN(Program other, ParseWith("%t", "%u"));
  EXPECT_EQ(ContentOf(other), ContentOf(program));
  MICA_ASSERT_OK_AND_ASSIGN(other, ParseWith("\"m.py\":4", "\"n.py\":9"));
  EXPECT_EQ(ContentOf(other), ContentOf(program));
  MICA_ASSERT_OK_AND_ASSIGN(other,
                            ParseWith("return %0, none", "return %a, none"));
  EXPECT_NE(ContentOf(other), ContentOf(program));
  MICA_ASSERT_OK_AND_ASSIGN(other, ParseWith("[1.0, 2.0]", "[1.0, 3.0]"));
  EXPECT_NE(ContentOf(other), ContentOf(program));
}

TEST(ControlTextTest, TellsWhatIsWrongWithABody) {
  struct Case {
    absl::string_view from, to, want;
  };
  const Case cases[] = {
      {"aten.relu(%a)", "aten.relu(%x)", "%x is not defined before its use"},
      {"else(", "other(", "wants 'else'"},
      {"mica.if(%p,", "mica.if(%x,",
       "wants a bool, or a tensor of one, as predicate, got f32[2]"},
      {"else(%a: f32[2], %b: f32[2])", "else(%b: f32[2])",
       "'else' has 1 inputs for 2 operands"},
      {"else(%a: f32[2],", "else(%a: f32[3],",
       "'else' has %a: f32[3] for %x, which is f32[2] (m.py:4)"},
      {"return %b, none", "return %b", "'then' returns 2 values, 'else' 1"},
      {"%z, %none = mica.if(%p, [%x, %c]) : f32[2], f32[0]",
       "%z, %none = mica.if(%p, [%x, %c]) : f32[3], f32[0]",
       "result 0 is f32[2], but the program says f32[3]"},
      {"%z, %none = mica.if(%p, [%x, %c]) : f32[2], f32[0]",
       "%z = mica.if(%p, [%x, %c]) : f32[2]",
       "has 2 results, but the program names 1"},
      {"      return %p\n", "      return %0\n",
       "'cond' must return one bool, or a tensor of one (m.py:3)"},
      {"return %t, %p", "return %t",
       "'body' returns 1 values for 2 that the loop carries"},
      {"%c = constant [1.0, 2.0] : f32[2]", "%c = variable \"c\" : f32[2]",
       "a body has no variables"},
      {"      return %t, %p", "      update %x = %t\n      return %t, %p",
       "only the Program has updates"},
      {"return %y, %q", "return %y, none", "wants"},
      {"[%x, %c]", "[%x, none]", "argument 'operands' is of the wrong kind"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(ParseWith(c.from, c.to), StatusIs(kInvalid, HasSubstr(c.want)))
        << c.to;
  }
}

TEST(ControlTextTest, LimitsHowDeepBodiesStand) {
  const auto nested = [](int depth) {
    std::string text = "program @p(%x: f32[2], %p: bool[]) {\n";
    std::string end = "return %x\n}\n";
    for (int i = 0; i < depth; ++i) {
      absl::StrAppend(&text,
                      "%y = mica.if(%p, [%x, %p]) : f32[2]\n"
                      "then(%x: f32[2], %p: bool[]) { return %x }\n"
                      "else(%x: f32[2], %p: bool[]) {\n");
      end = absl::StrCat("return %x }\n", end);
    }
    return absl::StrCat(text, end);
  };
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(nested(kMaxBodyDepth), ControlOps()));
  EXPECT_EQ(program.depth(), kMaxBodyDepth);
  EXPECT_THAT(ParseProgram(nested(kMaxBodyDepth + 1), ControlOps()),
              StatusIs(kInvalid, HasSubstr("no more than 32 deep")));
  EXPECT_THAT(ParseProgram(nested(1000), ControlOps()),
              StatusIs(kInvalid, HasSubstr("deep")));
}

}  // namespace
}  // namespace mica
