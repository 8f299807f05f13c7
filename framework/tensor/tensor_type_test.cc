#include "framework/tensor/tensor_type.h"

#include <utility>

#include "framework/tensor/parts.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

TensorType Type(Dims dims, Dims strides = {}) {
  return {.dims = std::move(dims), .strides = std::move(strides)};
}

TEST(TensorTypeTest, ComparesWhereElementsLie) {
  EXPECT_EQ(Type({2, 3}), Type({2, 3}, {3, 1}));
  EXPECT_NE(Type({2, 3}), Type({2, 3}, {1, 2}));
  // The stride of a dim of size 1 is never used.
  EXPECT_EQ(Type({2, 1}), Type({2, 1}, {1, 7}));
  EXPECT_EQ(Type({1, 2, 3}, {5, 1, 2}), Type({1, 2, 3}, {9, 1, 2}));
  EXPECT_NE(Type({1, 2, 3}, {5, 1, 2}), Type({1, 2, 3}, {5, 4, 2}));
  // Nor is any where there are no elements.
  EXPECT_EQ(Type({0, 3}), Type({0, 3}, {1, 7}));
}

TEST(TensorTypeTest, RefusesSizesThatOverflow) {
  constexpr int64_t kBig = int64_t{1} << 40;
  EXPECT_TRUE(HasLegalSize(Type({kBig})));
  EXPECT_FALSE(HasLegalSize(Type({kBig, kBig})));
  EXPECT_FALSE(HasLegalSize(Type({0, kBig, kBig})));
  EXPECT_FALSE(HasLegalSize(Type({kBig, kBig, 0})));
  EXPECT_FALSE(HasLegalSize(Type({-1})));
  EXPECT_FALSE(HasLegalSize(Type({2}, {-1})));
  EXPECT_FALSE(HasLegalSize(Type({2, 0}, {kBig << 10, 1})));
  EXPECT_TRUE(HasLegalSize(Type({SymbolDim("n"), 3})));
}

TEST(TensorTypeTest, PrintsStridesThatMatter) {
  EXPECT_EQ(Type({2, 3}, {3, 1}).ToString(), "f32[2,3]");
  EXPECT_EQ(Type({2, 3}, {1, 2}).ToString(), "f32[2,3]{1,2}");
  EXPECT_EQ(Type({SymbolDim("batch"), 3}).ToString(), "f32[batch,3]");
  EXPECT_EQ(ScalarType(DType::kF64).ToString(), "f64");
}

TEST(TensorTypeTest, ComplexNumbersAreTwoParts) {
  const TensorType rows{.dtype = DType::kC64, .dims = {2, 3}};
  EXPECT_EQ(PartsType(rows).ToString(), "f32[2,3,2]");
  EXPECT_EQ(PartsType(rows).num_bytes(), rows.num_bytes());
  const TensorType columns{
      .dtype = DType::kC128, .dims = {2, 3}, .strides = {1, 2}};
  EXPECT_EQ(PartsType(columns).ToString(), "f64[2,3,2]{2,4,1}");
  EXPECT_EQ(PartsType(ScalarType(DType::kC128)).ToString(), "f64[2]");
  EXPECT_EQ(PartsType(ScalarType(DType::kF64)).ToString(), "f64");
  EXPECT_EQ(PromoteDTypes(DType::kF64, DType::kC64), DType::kC128);
  EXPECT_FALSE(IsFloating(DType::kC64));
}

}  // namespace
}  // namespace mica
