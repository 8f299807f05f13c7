#include "analysis/cost/op_work.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "gtest/gtest.h"
#include "ops/all.h"

namespace mica {
namespace {

OpWork WorkOfOp(const std::string& inputs, const std::string& op) {
  const auto program = ParseProgram(
      "program @p(" + inputs + ") {\n  %r = " + op + "\n  return %r\n}\n",
      AllOps());
  MICA_EXPECT_OK(program);
  return WorkOf(*program, program->ops()[0]);
}

TEST(OpWorkTest, MatrixProductsAreTheirMultiplications) {
  const OpWork work =
      WorkOfOp("%a: f32[4,8], %b: f32[8,2]", "aten.mm(%a, %b) : f32[4,2]");
  EXPECT_EQ(work.moved, 4 * 8 + 8 * 2 + 4 * 2);
  EXPECT_EQ(work.products, 4 * 8 * 2);
  EXPECT_EQ(WorkOfOp("%a: f32[9,4,8], %b: f32[9,8,2]",
                     "aten.bmm(%a, %b) : f32[9,4,2]")
                .products,
            9 * 4 * 8 * 2);
}

TEST(OpWorkTest, OtherOpsAreWhatTheyMove) {
  const OpWork work = WorkOfOp("%a: f32[4,8], %b: f32[8]",
                               "aten.add.Tensor(%a, %b) : f32[4,8]");
  EXPECT_EQ(work.moved, 4 * 8 + 8 + 4 * 8);
  EXPECT_EQ(work.products, 0);
}

TEST(OpWorkTest, ViewsAreNothing) {
  const OpWork work = WorkOfOp("%a: f32[4,8]", "aten.t(%a) : f32[8,4]{1,8}");
  EXPECT_EQ(work.moved, 0);
  EXPECT_EQ(work.products, 0);
}

}  // namespace
}  // namespace mica
