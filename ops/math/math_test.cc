#include "framework/base/test_matchers.h"
#include "ops/infer_testing.h"

namespace mica {
namespace {

TEST(ArithmeticTest, BroadcastsFromTheLastDim) {
  EXPECT_EQ(Types("%a: f32[4,1,3], %b: f32[5,1]", "aten.mul.Tensor(%a, %b)"),
            "f32[4,5,3]");
  EXPECT_EQ(Types("%a: f32[0,3], %b: f32[1,1]", "aten.add.Tensor(%a, %b)"),
            "f32[0,3]");
  ExpectError("%a: f32[4,2], %b: f32[3]", "aten.add.Tensor(%a, %b)",
              "aten.add.Tensor: wants shapes that broadcast, got f32[4,2], "
              "f32[3]");
}

TEST(ArithmeticTest, PromotesByCategoryAndRank) {
  // Two tensors of one category: the wider type.
  EXPECT_EQ(Types("%a: i32[2], %b: i64[2]", "aten.add.Tensor(%a, %b)"),
            "i64[2]");
  EXPECT_EQ(Types("%a: i64[2], %b: f32[2]", "aten.add.Tensor(%a, %b)"),
            "f32[2]");
  // No dims: counts only if of a higher category.
  EXPECT_EQ(Types("%a: f32[2], %b: f64[]", "aten.add.Tensor(%a, %b)"),
            "f32[2]");
  EXPECT_EQ(Types("%a: i64[2], %b: f64[]", "aten.add.Tensor(%a, %b)"),
            "f64[2]");
  // A Python number counts still less, and as torch's default float.
  EXPECT_EQ(Types("%a: f32[], %b: f64", "aten.add.Tensor(%a, %b)"), "f32[]");
  EXPECT_EQ(Types("%a: i64[2], %b: f64", "aten.add.Tensor(%a, %b)"), "f32[2]");
  EXPECT_EQ(Types("%a: u8[2], %b: i64", "aten.add.Tensor(%a, %b)"), "u8[2]");
  EXPECT_EQ(Types("%a: bool[2]", "aten.add.Scalar(%a, 1)"), "i64[2]");
  EXPECT_EQ(Types("%a: bf16[2], %b: f16[2]", "aten.mul.Tensor(%a, %b)"),
            "f32[2]");
}

TEST(ArithmeticTest, NumbersAloneGiveANumber) {
  EXPECT_EQ(Types("%a: i64, %b: f64", "aten.mul.Tensor(%a, %b)"), "f64");
  EXPECT_EQ(Types("%a: i64, %b: i64", "aten.div.Tensor(%a, %b)"), "f64");
  EXPECT_EQ(Types("%a: f64", "aten.sqrt(%a)"), "f64");
  EXPECT_EQ(Types("%a: i64", "aten.lt.Scalar(%a, 3)"), "bool");
  EXPECT_EQ(Types("%a: i64, %b: i64[]", "aten.mul.Tensor(%a, %b)"), "i64[]");
}

TEST(ArithmeticTest, TrueDivisionGivesFloats) {
  EXPECT_EQ(Types("%a: i64[2], %b: i64[2]", "aten.div.Tensor(%a, %b)"),
            "f32[2]");
  EXPECT_EQ(Types("%a: i64[2], %b: i64[2]",
                  "aten.div.Tensor_mode(%a, %b, \"floor\")"),
            "i64[2]");
  EXPECT_EQ(
      Types("%a: i64[2], %b: i64[2]", "aten.div.Tensor_mode(%a, %b, none)"),
      "f32[2]");
  ExpectError("%a: f32[2], %b: f32[2]", "aten.div.Tensor_mode(%a, %b, \"up\")",
              "rounding_mode");
}

TEST(ArithmeticTest, AlphaIsOneNumber) {
  EXPECT_EQ(Types("%a: f32[2], %b: f32[2], %s: f64",
                  "aten.add.Tensor(%a, %b, alpha=%s)"),
            "f32[2]");
  ExpectError("%a: f32[2], %b: f32[2]", "aten.add.Tensor(%a, %b, alpha=%a)",
              "a number for 'alpha'");
}

TEST(UnaryTest, RealFunctionsOfIntegersAreF32) {
  EXPECT_EQ(Types("%a: i64[2]", "aten.exp(%a)"), "f32[2]");
  EXPECT_EQ(Types("%a: bool[2]", "aten.sqrt(%a)"), "f32[2]");
  EXPECT_EQ(Types("%a: f64[2]", "aten.tanh(%a)"), "f64[2]");
  EXPECT_EQ(Types("%a: i32[2]", "aten.floor(%a)"), "i32[2]");
  EXPECT_EQ(Types("%a: f32[2]", "aten.isnan(%a)"), "bool[2]");
  ExpectError("%a: f32[2]", "aten.bitwise_not(%a)",
              "aten.bitwise_not: wants integers or bool, got f32[2]");
  ExpectError("%a: bool[2]", "aten.neg(%a)", "not bool");
}

TEST(LogicTest, ComparisonsAreBoolAndChoicesPromoteWhatTheyChoose) {
  EXPECT_EQ(Types("%a: i64[2,1], %b: f32[3]", "aten.lt.Tensor(%a, %b)"),
            "bool[2,3]");
  EXPECT_EQ(Types("%c: bool[2,1], %a: i64[3], %b: f32[]",
                  "aten.where.self(%c, %a, %b)"),
            "f32[2,3]");
  EXPECT_EQ(
      Types("%c: bool[2], %a: f64, %b: f64", "aten.where.self(%c, %a, %b)"),
      "f32[2]");
  EXPECT_EQ(
      Types("%a: i64[2], %m: bool[2]", "aten.masked_fill.Scalar(%a, %m, 1.5)"),
      "i64[2]");
}

TEST(MatmulTest, ChecksInnerSizesAndDTypes) {
  EXPECT_EQ(Types("%a: f32[2,3], %b: f32[3,4]", "aten.mm(%a, %b)"), "f32[2,4]");
  EXPECT_EQ(Types("%a: f64[5,2,3], %b: f64[5,3,4]", "aten.bmm(%a, %b)"),
            "f64[5,2,4]");
  EXPECT_EQ(
      Types("%c: f32[4], %a: f32[2,3], %b: f32[3,4]", "aten.addmm(%c, %a, %b)"),
      "f32[2,4]");
  EXPECT_EQ(Types("%a: f32[3], %b: f32[3]", "aten.dot(%a, %b)"), "f32[]");
  ExpectError("%a: f32[2,3], %b: f32[4,4]", "aten.mm(%a, %b)",
              "aten.mm: wants [m,k] and [k,n], got f32[2,3], f32[4,4]");
  ExpectError("%a: f32[2,3], %b: f64[3,4]", "aten.mm(%a, %b)", "of one dtype");
  ExpectError("%a: f32[2,3,1], %b: f32[3,4]", "aten.mm(%a, %b)", "[m,k]");
  ExpectError("%c: f32[2], %a: f32[2,3], %b: f32[3,4]",
              "aten.addmm(%c, %a, %b)", "an addend that broadcasts to [m,n]");
}

TEST(MatmulTest, LinearTakesAnyOuterDims) {
  EXPECT_EQ(Types("%x: f32[2,5,3], %w: f32[4,3], %b: f32[4]",
                  "mica.linear(%x, %w, %b, none, \"gelu\")"),
            "f32[2,5,4]");
  ExpectError("%x: f32[2,3], %w: f32[4,3]",
              "mica.linear(%x, %w, none, none, \"swoosh\")", "swoosh");
  ExpectError("%x: f32[2,3], %w: f32[4,3], %r: f32[4]",
              "mica.linear(%x, %w, none, %r, \"none\")", "residual");
}

TEST(ReductionTest, DropsOrKeepsAxes) {
  EXPECT_EQ(Types("%a: f32[2,3,4]", "aten.sum.dim_IntList(%a, [-1,0])"),
            "f32[3]");
  EXPECT_EQ(Types("%a: f32[2,3,4]", "aten.mean.dim(%a, [1], true)"),
            "f32[2,1,4]");
  EXPECT_EQ(Types("%a: f32[2,3]", "aten.sum.dim_IntList(%a, [])"), "f32[]");
  EXPECT_EQ(Types("%a: f32[2,3]", "aten.any.dims(%a, [])"), "bool[2,3]");
  EXPECT_EQ(Types("%a: f32[]", "aten.sum.dim_IntList(%a, [0])"), "f32[]");
  ExpectError("%a: f32[2,3]", "aten.sum.dim_IntList(%a, [2])",
              "an axis from -2 to 1, not 2");
  ExpectError("%a: f32[2,3]", "aten.sum.dim_IntList(%a, [1,-1])", "once");
}

TEST(ReductionTest, WidensIntegers) {
  EXPECT_EQ(Types("%a: bool[2]", "aten.sum(%a)"), "i64[]");
  EXPECT_EQ(Types("%a: i32[2]", "aten.cumsum(%a, 0)"), "i64[2]");
  EXPECT_EQ(Types("%a: i32[2]", "aten.amax(%a)"), "i32[]");
  EXPECT_EQ(Types("%a: i64[2]", "aten.mean(%a, dtype=f64)"), "f64[]");
  ExpectError("%a: i64[2]", "aten.mean(%a)", "floating-point");
}

TEST(ReductionTest, ExtremesNeedElements) {
  EXPECT_EQ(Types("%a: f32[0,3]", "aten.amax(%a, [1])"), "f32[0]");
  EXPECT_EQ(Types("%a: f32[4,3]", "aten.max.dim(%a, 1)"), "f32[4] i64[4]");
  ExpectError("%a: f32[0,3]", "aten.amax(%a, [0])", "at least one element");
  ExpectError("%a: f32[0]", "aten.argmax(%a)", "at least one element");
}

TEST(ScanTest, TopkIsNoLargerThanTheAxis) {
  EXPECT_EQ(Types("%a: f32[2,5]", "aten.topk(%a, 3)"), "f32[2,3] i64[2,3]");
  ExpectError("%a: f32[2,5]", "aten.topk(%a, 6)", "not 6");
}

}  // namespace
}  // namespace mica
