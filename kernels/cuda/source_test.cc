#include "kernels/cuda/source.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SourceTest, DimsThatFollowEachOtherAreOne) {
  const Loop loop = Simplify(
      {.dims = {2, 1, 3, 4}, .strides = {{12, 5, 4, 1}, {12, 12, 4, 1}}},
      /*leader=*/1);
  EXPECT_THAT(loop.dims, ElementsAre(24));
  EXPECT_THAT(loop.strides[0], ElementsAre(1));
}

TEST(SourceTest, DimsAreInTheOrderOfTheLeadersMemory) {
  // A transposed operand, and one that is spread.
  const Loop loop = Simplify(
      {.dims = {3, 4}, .strides = {{4, 1}, {1, 3}, {0, 1}}}, /*leader=*/1);
  EXPECT_THAT(loop.dims, ElementsAre(4, 3));
  EXPECT_THAT(loop.strides[0], ElementsAre(1, 4));
  EXPECT_THAT(loop.strides[1], ElementsAre(3, 1));
  EXPECT_THAT(loop.strides[2], ElementsAre(1, 0));
}

TEST(SourceTest, OneElementHasNoDims) {
  const Loop loop = Simplify({.dims = {1, 1}, .strides = {{1, 1}}}, 0);
  EXPECT_TRUE(loop.dims.empty());
  EXPECT_EQ(loop.size(), 1);
  EXPECT_THAT(OffsetsOf(loop, "i", {"at"}, "d"),
              HasSubstr("const long long at = 0;"));
}

TEST(SourceTest, OffsetsAreSumsOfIndicesByStrides) {
  const std::string code = OffsetsOf(
      {.dims = {5, 3}, .strides = {{-3, 1}, {0, 7}}}, "i", {"a", "b"}, "d");
  EXPECT_THAT(code, HasSubstr("const unsigned d1 = i % 3;"));
  EXPECT_THAT(code, HasSubstr("const unsigned d0 = drest1;"));
  EXPECT_THAT(code, HasSubstr("a = d1 * (1LL) + d0 * (-3LL);"));
  EXPECT_THAT(code, HasSubstr("b = d1 * (7LL);"));
}

TEST(SourceTest, LiteralsKeepEveryBit) {
  EXPECT_EQ(Literal(DType::kF32, 0.1), "((float)0x1.999999999999ap-4)");
  EXPECT_EQ(Literal(DType::kI64, -2.9), "(-2LL)");
  EXPECT_EQ(Literal(DType::kI32, std::numeric_limits<double>::infinity()),
            "(9223372036854775807LL)");
  EXPECT_EQ(Literal(DType::kF64, -std::numeric_limits<double>::infinity()),
            "(-(double)infinity())");
  EXPECT_EQ(IntegerLiteral(std::numeric_limits<int64_t>::min()),
            "(-9223372036854775807LL - 1)");
}

}  // namespace
}  // namespace mica::cuda
