#include "framework/text/variable_lines.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/test_matchers.h"
#include "framework/op/op_registry.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::HasSubstr;

TEST(VariableLinesTest, ReadsDeclarationsOfKnownTypes) {
  const std::string text = "f32[8] \n%12 = variable \"a.b\" : f32[8] \n";
  VariableLines lines(text);
  const size_t offset = text.find('%');
  EXPECT_FALSE(lines.ReadDeclaration(offset).has_value());
  lines.Learn(0, {.dtype = DType::kF32, .dims = {8}});
  const auto line = lines.ReadDeclaration(offset);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->name, "12");
  EXPECT_EQ(line->variable, "a.b");
  EXPECT_EQ(line->type->ToString(), "f32[8]");
  EXPECT_EQ(line->end, text.size() - 1);
}

TEST(VariableLinesTest, ReadsUpdates) {
  const std::string text = "update \"a b\" = %w.1";
  const auto line = VariableLines(text).ReadUpdate(0);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->variable, "a b");
  EXPECT_EQ(line->variable_offset, text.find('"'));
  EXPECT_EQ(line->value, "w.1");
  EXPECT_EQ(line->end, text.size());
}

TEST(VariableLinesTest, LeavesAllElse) {
  for (const absl::string_view text :
       {"", "%", "%a", "%a = variable", "%a = variable \"b",
        "%\"a\" = variable", "%a = variable \"b\\n\" : f32[8]",
        "%a = variable \"\" : f32[8]", "%a  = variable \"b\" : f32[8]",
        "%a = variable \"b\" : f32[9]", "%a = aten.neg(%b) : f32[8]",
        "%a = variable \"b\n\" : f32[8]"}) {
    const std::string all = absl::StrCat("f32[8]\n", text);
    VariableLines lines(all);
    lines.Learn(0, {.dtype = DType::kF32, .dims = {8}});
    EXPECT_FALSE(lines.ReadDeclaration(7).has_value()) << text;
  }
  for (const absl::string_view text :
       {"", "update", "update %a = %b", "update \"a\" = %b // Why.",
        "update \"a\" = %b update \"c\" = %d", "update \"a\\\"\" = %b",
        "update \"a\" = %\"b\"", "update \"a\" = "}) {
    EXPECT_FALSE(VariableLines(text).ReadUpdate(0).has_value()) << text;
  }
}

// As many variables and updates as make these lines the usual case.
std::string TextOf(absl::string_view last_lines) {
  return absl::StrCat(R"(program @p() {
  %a = variable "a" : f32[8]
  %b = variable "b" : f32[8]
  %c = variable "c" : f32[4]{2} // Every other one.
  %d = variable "d" : f32[4]{2} // Every other one.
  %e = variable "e"
    : f32[8]
  %g = variable "g" : f32[6]
    {2}
  %h = variable "h" : f32[6]
  update "a" = %b
  update "b" = %a
)",
                      last_lines, "  return %a\n}\n");
}

TEST(VariableLinesTest, AParserReadsTheSameByThem) {
  const OpRegistry ops;
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(TextOf(""), ops));
  ASSERT_EQ(program.variables().size(), 7);
  for (const Variable& variable : program.variables()) {
    EXPECT_EQ(program.value(variable.value).name, variable.name);
  }
  EXPECT_EQ(program.type(program.FindValue("d")),
            program.type(program.FindValue("c")));
  EXPECT_EQ(program.type(program.FindValue("e")),
            program.type(program.FindValue("b")));
  EXPECT_EQ(program.type(program.FindValue("g")).ToString(), "f32[6]{2}");
  EXPECT_EQ(program.type(program.FindValue("h")).ToString(), "f32[6]");
  EXPECT_EQ(program.updates().size(), 2);
}

TEST(VariableLinesTest, ErrorsNameTheLine) {
  const OpRegistry ops;
  const auto error = [&](absl::string_view line) {
    return ParseProgram(TextOf(line), ops).status();
  };
  EXPECT_THAT(
      error("  %i = variable \"a\" : f32[8]\n"),
      StatusIs(kInvalid, HasSubstr("13:3: variable \"a\" is declared")));
  EXPECT_THAT(error("  %a = variable \"i\" : f32[8]\n"),
              StatusIs(kInvalid, HasSubstr("13:3: %a is defined twice")));
  EXPECT_THAT(error("  update \"b\" = %a\n"),
              StatusIs(kInvalid, HasSubstr("13:10: %b is updated twice")));
  EXPECT_THAT(error("  update \"f\" = %a\n"),
              StatusIs(kInvalid, HasSubstr("13:10: update: no variable")));
  EXPECT_THAT(error("  update \"d\" = %z\n"),
              StatusIs(kInvalid, HasSubstr("13:16: ")));
}

}  // namespace
}  // namespace mica
