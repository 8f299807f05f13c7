#include "framework/base/test_matchers.h"
#include "ops/infer_testing.h"

namespace mica {
namespace {

TEST(ViewTest, FollowsTheBasesStrides) {
  EXPECT_EQ(Types("%a: f32[6,4]", "aten.view(%a, [2,3,-1])"), "f32[2,3,4]");
  EXPECT_EQ(Types("%a: f32[6,4]{1,6}", "aten.view(%a, [2,3,4])"),
            "f32[2,3,4]{3,1,6}");
  EXPECT_EQ(Types("%a: f32[4,6]{12,2}", "aten.view(%a, [24])"), "f32[24]{2}");
  EXPECT_EQ(Types("%a: f32[0,4]", "aten.view(%a, [4,0])"), "f32[4,0]");
  EXPECT_EQ(Types("%a: f32[]", "aten.view(%a, [1,1])"), "f32[1,1]");
  ExpectError("%a: f32[6,4]{1,6}", "aten.view(%a, [24])",
              "strides that allow a view of [24]");
  ExpectError("%a: f32[6,4]", "aten.view(%a, [5,5])",
              "a size of 24 elements, not [5,5]");
  ExpectError("%a: f32[6,4]", "aten.view(%a, [-1,-1])", "at most one -1");
  ExpectError("%a: f32[0,4]", "aten.view(%a, [-1,0])", "a size of 0 elements");
}

TEST(ViewTest, MovesAxes) {
  EXPECT_EQ(Types("%a: f32[2,3]", "aten.t(%a)"), "f32[3,2]{1,3}");
  EXPECT_EQ(Types("%a: f32[2,3,4]", "aten.permute(%a, [2,-3,1])"),
            "f32[4,2,3]{1,12,4}");
  EXPECT_EQ(Types("%a: f32[2,3,4]", "aten.transpose.int(%a, 0, -1)"),
            "f32[4,3,2]{1,4,12}");
  EXPECT_EQ(Types("%a: f32[2,3]", "aten.unsqueeze(%a, -1)"), "f32[2,3,1]");
  EXPECT_EQ(Types("%a: f32[1,3,1]", "aten.squeeze.dims(%a, [0,1])"),
            "f32[3,1]");
  EXPECT_EQ(Types("%a: f32[1,3,1]", "aten.squeeze(%a)"), "f32[3]");
  ExpectError("%a: f32[2,3]", "aten.permute(%a, [0])", "as many axes as dims");
  ExpectError("%a: f32[2,3,4]", "aten.t(%a)", "at most two dims");
}

TEST(ViewTest, TakesParts) {
  EXPECT_EQ(Types("%a: f32[5,7]", "aten.slice.Tensor(%a, 1, -4, 100, 2)"),
            "f32[5,2]{7,2}");
  EXPECT_EQ(Types("%a: f32[5,7]", "aten.slice.Tensor(%a, 0, 4, 2)"),
            "f32[0,7]");
  EXPECT_EQ(Types("%a: f32[5,7]", "aten.select.int(%a, 0, -1)"), "f32[7]");
  EXPECT_EQ(Types("%a: f32[5,7]", "aten.diagonal(%a, 3)"), "f32[4]{8}");
  EXPECT_EQ(Types("%a: f32[7]", "aten.unfold(%a, 0, 3, 2)"), "f32[3,3]{2,1}");
  ExpectError("%a: f32[5,7]", "aten.select.int(%a, 0, 5)",
              "an index below 5, not 5");
  ExpectError("%a: f32[5,7]", "aten.slice.Tensor(%a, 0, 0, 5, 0)", "a step");
}

TEST(ViewTest, SeesComplexNumbersAsTheirParts) {
  EXPECT_EQ(Types("%a: c64[2,3]{1,2}", "aten.view_as_real(%a)"),
            "f32[2,3,2]{2,4,1}");
  EXPECT_EQ(Types("%a: f64[5,2]{4,1}", "aten.view_as_complex(%a)"),
            "c128[5]{2}");
  EXPECT_EQ(Types("%a: c128[2,3]", "aten.t(%a)"), "c128[3,2]{1,3}");
  ExpectError("%a: f32[2]", "aten.view_as_real(%a)", "a complex tensor");
  ExpectError("%a: f32[3,2]{3,1}", "aten.view_as_complex(%a)", "even strides");
  ExpectError("%a: f32[3]", "aten.view_as_complex(%a)", "a last axis of 2");
  ExpectError("%a: i64[3,2]", "aten.view_as_complex(%a)", "f32 or f64");
}

TEST(ComplexTest, OnlyViewsTakeThem) {
  ExpectError("%a: c64[2], %b: f32[2]", "aten.add.Tensor(%b, %a)",
              "real numbers, got f32[2], c64[2]");
  ExpectError("%a: c64[2]", "aten.cat([%a])", "real numbers");
  ExpectError("%a: c64[2]", "aten.clone(%a)", "real numbers");
  ExpectError("", "aten.zeros([2], dtype=c64)", "a real dtype, got c64");
}

TEST(ViewTest, ExpandsDimsOfOne) {
  EXPECT_EQ(Types("%a: f32[3,1]", "aten.expand(%a, [2,-1,4])"),
            "f32[2,3,4]{0,1,0}");
  EXPECT_EQ(Types("%a: f32[]", "aten.expand(%a, [2])"), "f32[2]{0}");
  ExpectError("%a: f32[3]", "aten.expand(%a, [4])", "extends dims of 1");
  ExpectError("%a: f32[3]", "aten.expand(%a, [-1,3])", "legal");
}

TEST(ViewTest, StaysInsideItsBase) {
  EXPECT_EQ(Types("%a: f32[12]", "aten.as_strided(%a, [3,4], [1,3])"),
            "f32[3,4]{1,3}");
  ExpectError("%a: f32[12]", "aten.as_strided(%a, [3,4], [1,3], 1)",
              "a window inside the base's 48 bytes");
  ExpectError("%a: f32[12]", "aten.as_strided(%a, [2], [1], -1)", "legal");
  ExpectError("%a: f32[12]",
              "aten.as_strided(%a, [4611686018427387904,4], [4,4])", "legal");
}

TEST(CopyTest, ResultsHaveNoStridesOfTheirOwn) {
  EXPECT_EQ(Types("%a: f32[2,3]{1,2}", "aten.clone(%a)"), "f32[2,3]");
  EXPECT_EQ(Types("%a: f32[2,3]", "aten._to_copy(%a, dtype=i64)"), "i64[2,3]");
  EXPECT_EQ(Types("%a: f32[2,3], %b: i64[3]", "aten.copy(%a, %b)"), "f32[2,3]");
  ExpectError("%a: f32[3], %b: f32[2,3]", "aten.copy(%a, %b)",
              "operands that broadcast to the first");
}

TEST(CopyTest, SizesDoNotOverflow) {
  ExpectError("%a: f32[4]", "aten.repeat(%a, [4611686018427387904])",
              "legal repeat counts");
  ExpectError("%a: f32[4]", "aten.constant_pad_nd(%a, [1,9223372036854775807])",
              "smaller pads");
  ExpectError("%a: f32[4]", "aten.constant_pad_nd(%a, [-5,0])",
              "negative size");
  // What is cut off can't be added again.
  ExpectError("%a: f32[4]", "aten.constant_pad_nd(%a, [5,-5])",
              "negative size");
}

TEST(JoinTest, SumsOneAxis) {
  EXPECT_EQ(Types("%a: f32[2,3], %b: f32[2,4]", "aten.cat([%a, %b], -1)"),
            "f32[2,7]");
  EXPECT_EQ(Types("%a: f32[0], %b: i64[2,4]", "aten.cat([%a, %b])"),
            "f32[2,4]");
  EXPECT_EQ(Types("%a: f32[3], %b: f32[3]", "aten.stack([%a, %b], -1)"),
            "f32[3,2]");
  ExpectError("%a: f32[2,3], %b: f32[3,4]", "aten.cat([%a, %b])",
              "equal dims but the joined one");
  ExpectError("", "aten.cat([])", "at least one tensor");
}

TEST(FactoryTest, TakesTheDTypeOfItsNumber) {
  EXPECT_EQ(Types("", "aten.full([2], 1.5)"), "f32[2]");
  EXPECT_EQ(Types("", "aten.full([2], 1)"), "i64[2]");
  EXPECT_EQ(Types("", "aten.full([2], true)"), "bool[2]");
  EXPECT_EQ(Types("%s: f64", "aten.full([2], %s, dtype=f64)"), "f64[2]");
  EXPECT_EQ(Types("", "aten.zeros([2])"), "f32[2]");
  EXPECT_EQ(Types("%a: i32[3]", "aten.new_ones(%a, [2,2])"), "i32[2,2]");
}

TEST(FactoryTest, CountsRanges) {
  EXPECT_EQ(Types("", "aten.arange(5)"), "i64[5]");
  EXPECT_EQ(Types("", "aten.arange.start_step(5, 0, -2)"), "i64[3]");
  EXPECT_EQ(Types("", "aten.arange.start_step(0, 1, 0.3)"), "f32[4]");
  ExpectError("", "aten.arange.start_step(0, 1, 0)", "a range that ends");
  ExpectError("", "aten.arange.start_step(0, 1, -1)", "a range that ends");
  ExpectError("", "aten.arange(1e300)", "a range that ends");
  ExpectError("%s: i64", "aten.arange(%s)", "constant numbers");
}

TEST(IndexTest, PutsWhatIsIndexedInItsPlace) {
  EXPECT_EQ(Types("%a: f32[5,6,7], %i: i64[2,1], %j: i64[3]",
                  "aten.index.Tensor(%a, [none, %i, %j])"),
            "f32[5,2,3]");
  EXPECT_EQ(Types("%a: f32[5,6,7], %i: i64[2], %j: i64[2]",
                  "aten.index.Tensor(%a, [%i, none, %j])"),
            "f32[2,6]");
  ExpectError("%a: f32[5], %i: i64[2]", "aten.index.Tensor(%a, [%i, %i])",
              "at most one index tensor for each dim");
  ExpectError("%a: f32[5], %m: bool[5]", "aten.index.Tensor(%a, [%m])",
              "a size that depends on data", absl::StatusCode::kUnimplemented);
}

TEST(IndexTest, GatherIsNowhereLarger) {
  EXPECT_EQ(Types("%a: f32[5,6], %i: i64[2,9]", "aten.gather(%a, 1, %i)"),
            "f32[2,9]");
  ExpectError("%a: f32[5,6], %i: i64[6,9]", "aten.gather(%a, 1, %i)",
              "no larger than self but along dim");
}

TEST(ScatterTest, WritesInsideItsBase) {
  EXPECT_EQ(Types("%a: f32[2,3]{1,2}, %b: f32[3]",
                  "mica.scatter_view(%a, %b, [3], [2], 1)"),
            "f32[2,3]{1,2}");
  ExpectError("%a: f32[2,3], %b: f32[3]",
              "mica.scatter_view(%a, %b, [3], [2], 2)", "inside the base's");
  ExpectError("%a: f32[2,3]{6,2}, %b: f32[3]",
              "mica.scatter_view(%a, %b, [3], [2], 1)", "a dense base");
  ExpectError("%a: f32[2,3], %b: f32[2]", "aten.select_scatter(%a, %b, 0, 1)",
              "src that broadcasts to");
}

}  // namespace
}  // namespace mica
