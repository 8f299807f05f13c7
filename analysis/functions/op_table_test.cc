#include "analysis/functions/op_table.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::ElementsAre;

TEST(OpTableTest, OpsThatDoTheSameAreOneForm) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const Program program,
      ParseProgram(R"(program @p(%x: f32[4,8], %y: f32[4,8], %z: f32[8,4]) {
  %0 = aten.add.Tensor(%x, %y) : f32[4,8]
  %1 = aten.add.Tensor(%0, %0) : f32[4,8]
  %2 = aten.add.Tensor(%0, %1, alpha=2) : f32[4,8]
  %3 = aten.add.Tensor(%z, %z) : f32[8,4]
  %4 = aten.sub.Tensor(%0, %1) : f32[4,8]
  %5 = aten.add.Tensor(%2, %4) : f32[4,8]
  return %5
}
)",
                   AllOps()));
  const OpTable table(program);
  ASSERT_EQ(table.num_ops(), 6);
  EXPECT_EQ(table.form(0), 0);
  EXPECT_EQ(table.form(1), 0);  // Which values it reads doesn't count,
  EXPECT_EQ(table.form(2), 1);  // a number does,
  EXPECT_EQ(table.form(3), 2);  // a type,
  EXPECT_EQ(table.form(4), 3);  // and the operator.
  EXPECT_EQ(table.form(5), 0);
  for (OpId a = 0; a < table.num_ops(); ++a) {
    for (OpId b = 0; b < table.num_ops(); ++b) {
      EXPECT_EQ(table.form(a) == table.form(b),
                SameOp(program, program.ops()[a], program.ops()[b]));
      EXPECT_EQ(table.form(a) == table.form(b),
                table.words()[a] == table.words()[b]);
    }
  }
}

// They are equal, but what is multiplied by them isn't.
TEST(OpTableTest, TheSignOfAZeroCounts) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const Program program,
      ParseProgram("program @p(%x: f32[4]) {\n"
                   "  %0 = aten.mul.Scalar(%x, 0.0) : f32[4]\n"
                   "  %1 = aten.mul.Scalar(%0, -0.0) : f32[4]\n"
                   "  %2 = aten.mul.Scalar(%1, 0.0) : f32[4]\n"
                   "  return %2\n}\n",
                   AllOps()));
  const OpTable table(program);
  EXPECT_EQ(table.form(2), table.form(0));
  EXPECT_NE(table.form(1), table.form(0));
}

// More of one hash than are compared are forms of their own.
TEST(OpTableTest, WhatHasANaNEqualsNothing) {
  std::string text =
      "program @p(%x: f32[4]) {\n  %0 = aten.relu(%x) : f32[4]\n";
  for (int i = 1; i <= 40; ++i) {
    text += "  %" + std::to_string(i) + " = aten.mul.Scalar(%" +
            std::to_string(i - 1) + ", nan) : f32[4]\n";
  }
  text += "  return %40\n}\n";
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(text, AllOps()));
  const OpTable table(program);
  for (OpId op = 0; op < table.num_ops(); ++op) EXPECT_EQ(table.form(op), op);
}

TEST(OpTableTest, TellsWhoReadsAndMakesValues) {
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            ParseProgram(R"(program @p(%x: f32[4,8]) {
  %w = variable "w" : f32[4,8]
  %a, %i = aten.max.dim(%x, 1) : f32[4], i64[4]
  %b = aten.mul.Tensor(%x, %w) : f32[4,8]
  %c = aten.neg(%b) : f32[4,8]
  %d = aten.exp(%i) : f32[4]
  %e = aten.add.Tensor(%c, %c) : f32[4,8]
  update "w" = %b
  return %e
}
)",
                                         AllOps()));
  const OpTable table(program);
  const auto id = [&](absl::string_view name) {
    return program.FindValue(name);
  };
  EXPECT_EQ(table.num_results(0), 2);
  EXPECT_EQ(table.result(0, 1), id("i"));
  EXPECT_EQ(table.producer(id("i")), 0);
  EXPECT_EQ(table.producer(id("x")), -1);
  EXPECT_EQ(table.first_reader(id("x")), 0);
  EXPECT_EQ(table.first_reader(id("e")), -1);
  EXPECT_THAT(table.operands(1), ElementsAre(id("x"), id("w")));
  EXPECT_THAT(table.operands(2, 5),
              ElementsAre(id("b"), id("i"), id("c"), id("c")));
  EXPECT_TRUE(table.is_read_once(id("i")));
  EXPECT_FALSE(table.is_read_once(id("c")));  // Twice, by one op.
  EXPECT_FALSE(table.is_read_once(id("b")));  // By an update, too.
  EXPECT_FALSE(table.is_read_once(id("e")));  // By the caller alone.
  EXPECT_TRUE(table.is_kept(id("b")));
  EXPECT_THAT(table.FindLiveOps(), ElementsAre(false, true, true, false, true));
}

}  // namespace
}  // namespace mica
