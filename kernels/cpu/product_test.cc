#include "kernels/cpu/product.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

// Runs a row-major product of random numbers, compares it with doubles, and
// returns the form that was chosen for b. `b_is_transposed`: b lies as [n, k].
WeightForm Check(ProductSpec spec, bool b_is_transposed) {
  const int64_t m = spec.m, n = spec.n, k = spec.k;
  spec.a_row_stride = k;
  spec.a_batch_stride = m * k;
  spec.b_row_stride = b_is_transposed ? 1 : n;
  spec.b_col_stride = b_is_transposed ? k : 1;
  spec.b_batch_stride = n * k;
  spec.c_row_stride = n;
  spec.c_batch_stride = m * n;
  Product product;
  EXPECT_EQ(Product::Prepare(spec, product), std::nullopt);
  const auto a = RandomFloats(spec.batch * m * k, 1);
  const auto b = RandomFloats(spec.batch * n * k, 2);
  const auto bias = RandomFloats(n, 3);
  std::vector<float> c(spec.batch * m * n);
  constexpr float kBeyond = 7.5f;
  std::vector<float> scratch(product.scratch_floats() + 8192, kBeyond);
  const bool is_packed = product.form() == WeightForm::kPacked;
  std::vector<float> packed(is_packed ? product.packed_floats() : 0);
  if (is_packed) product.Pack(b.data(), packed.data());
  product.Run({.a = a.data(),
               .b = is_packed ? packed.data() : b.data(),
               .bias = spec.has_bias ? bias.data() : nullptr,
               .c = c.data(),
               .scratch = scratch.data()});
  EXPECT_TRUE(std::all_of(scratch.begin() + product.scratch_floats(),
                          scratch.end(),
                          [](float at) { return at == kBeyond; }));
  for (int64_t i = 0; i < spec.batch * m * n; ++i) {
    const int64_t batch = i / (m * n), row = i / n % m, col = i % n;
    double sum = spec.has_bias ? bias[col] : 0;
    for (int64_t x = 0; x < k; ++x) {
      sum += static_cast<double>(a[(batch * m + row) * k + x]) *
             b[batch * n * k + x * spec.b_row_stride + col * spec.b_col_stride];
    }
    EXPECT_NEAR(c[i], sum, 1e-4) << "element " << i;
    if (::testing::Test::HasFailure()) break;
  }
  return product.form();
}

TEST(ProductTest, ReadsWeightsInTheFormThatFits) {
  EXPECT_EQ(Check({.m = 20, .n = 40, .k = 30, .is_frozen = true}, true),
            WeightForm::kPacked);
  EXPECT_EQ(Check({.m = 20, .n = 40, .k = 30}, true), WeightForm::kPackAndRun);
  EXPECT_EQ(Check({.m = 2, .n = 41, .k = 30}, true), WeightForm::kDotProducts);
  EXPECT_EQ(Check({.m = 8, .n = 41, .k = 30, .has_bias = true}, true),
            WeightForm::kDotProducts);
  EXPECT_EQ(Check({.m = 11, .n = 203, .k = 90, .has_bias = true}, true),
            WeightForm::kSwapped);
  EXPECT_EQ(Check({.m = 20, .n = 40, .k = 30, .has_bias = true}, false),
            WeightForm::kInPlace);
  EXPECT_EQ(Check({.m = 20, .n = 300, .k = 300, .has_bias = true}, false),
            WeightForm::kPackAndRun);
  EXPECT_EQ(Check({.m = 70, .n = 256, .k = 33, .has_bias = true}, false),
            WeightForm::kPackAndRun);
  EXPECT_EQ(Check({.m = 70, .n = 256, .k = 32, .has_bias = true}, false),
            WeightForm::kInPlace);
  for (bool is_frozen : {true, false}) {
    for (int threads : {1, 3}) {
      EXPECT_EQ(Check({.batch = 2,
                       .m = 71,
                       .n = 1,
                       .k = 33,
                       .has_bias = true,
                       .is_frozen = is_frozen,
                       .num_threads = threads},
                      true),
                WeightForm::kColumn);
    }
  }
  // Few rows in b, few columns and many.
  Check({.m = 30000, .n = 3, .k = 3, .has_bias = true}, true);
  Check({.m = 300, .n = 300, .k = 3, .has_bias = true}, false);
  const WeightForm small = Check({.m = 9, .n = 16, .k = 30}, false);
  EXPECT_TRUE(small == WeightForm::kXsmm || small == WeightForm::kInPlace);
}

// Sums that are cut where a panel would leave the first-level cache; a's rows
// are copied where they lie a whole page apart.
TEST(ProductTest, LongSumsAreCut) {
  for (int64_t k : {1024, 1100, 2100}) {
    for (int64_t m : {64, 200}) {
      for (int threads : {1, 3}) {
        for (bool is_frozen : {true, false}) {
          const WeightForm form = Check({.batch = 2,
                                         .m = m,
                                         .n = 100,
                                         .k = k,
                                         .has_bias = true,
                                         .is_frozen = is_frozen,
                                         .num_threads = threads},
                                        false);
          EXPECT_EQ(form,
                    is_frozen ? WeightForm::kPacked : WeightForm::kPackAndRun);
        }
      }
    }
  }
}

// What follows the sums, with the residual apart and where c is, if that may
// be: relu(a b^T + bias) + residual and the like.
TEST(ProductTest, ActivationsAndResidualsFollowInEachForm) {
  struct Case {
    int64_t m;
    WeightForm form;
  };
  constexpr int64_t n = 203, k = 90;
  for (const Case& at :
       {Case{5, WeightForm::kDotProducts}, Case{17, WeightForm::kSwapped},
        Case{170, WeightForm::kPackAndRun}}) {
    for (Activation activation :
         {Activation::kNone, Activation::kRelu, Activation::kSigmoid}) {
      for (int threads : {1, 3}) {
        Product product;
        const ProductSpec spec = {.m = at.m,
                                  .n = n,
                                  .k = k,
                                  .a_row_stride = k,
                                  .b_row_stride = 1,
                                  .b_col_stride = k,
                                  .c_row_stride = n,
                                  .has_bias = true,
                                  .has_residual = true,
                                  .residual_row_stride = n,
                                  .activation = activation,
                                  .num_threads = threads};
        ASSERT_EQ(Product::Prepare(spec, product), std::nullopt);
        ASSERT_EQ(product.form(), at.form);
        const auto a = RandomFloats(at.m * k, 1), b = RandomFloats(n * k, 2);
        const auto bias = RandomFloats(n, 3);
        const auto residual = RandomFloats(at.m * n, 4);
        std::vector<float> apart(at.m * n), same = residual;
        std::vector<float> scratch(product.scratch_floats());
        ProductArgs args = {.a = a.data(),
                            .b = b.data(),
                            .bias = bias.data(),
                            .residual = residual.data(),
                            .c = apart.data(),
                            .scratch = scratch.data()};
        product.Run(args);
        for (int64_t i = 0; i < at.m * n; ++i) {
          double sum = bias[i % n];
          for (int64_t x = 0; x < k; ++x) {
            sum += static_cast<double>(a[i / n * k + x]) * b[i % n * k + x];
          }
          if (activation == Activation::kRelu) sum = std::max(sum, 0.0);
          if (activation == Activation::kSigmoid)
            sum = 1 / (1 + std::exp(-sum));
          ASSERT_NEAR(apart[i], sum + residual[i], 1e-4) << "element " << i;
        }
        if (!product.residual_may_be_c()) continue;
        args.residual = args.c = same.data();
        product.Run(args);
        EXPECT_EQ(same, apart);
      }
    }
  }
}

TEST(ProductTest, AResidualWhereTheResultGoesIsReadFirst) {
  for (int64_t m : {5, 17, 170}) {
    Product product;
    const ProductSpec spec = {.m = m,
                              .n = 203,
                              .k = 90,
                              .b_row_stride = 1,
                              .b_col_stride = 90,
                              .has_residual = true,
                              .residual_is_c = true};
    ASSERT_EQ(Product::Prepare(spec, product), std::nullopt);
    EXPECT_TRUE(product.residual_may_be_c()) << m;
  }
}

TEST(ProductTest, FewRowsMeetALargeMatrixByItsRows) {
  for (int threads : {1, 3}) {
    for (bool has_bias : {false, true}) {
      for (int64_t m : {1, 3}) {
        const ProductSpec row = {.m = m,
                                 .n = 2333,
                                 .k = 901,
                                 .has_bias = has_bias,
                                 .num_threads = threads};
        EXPECT_EQ(Check(row, false), WeightForm::kInPlace);
        Check({.batch = 2,
               .m = m,
               .n = 1333,
               .k = 61,
               .has_bias = true,
               .num_threads = threads},
              false);
      }
    }
  }
}

TEST(ProductTest, BiasActivationAndResidualFollowASingleRow) {
  constexpr int64_t n = 1333, k = 101;
  for (Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kSigmoid}) {
    Product product;
    const ProductSpec spec = {.m = 1,
                              .n = n,
                              .k = k,
                              .a_row_stride = k,
                              .b_row_stride = n,
                              .c_row_stride = n,
                              .has_bias = true,
                              .has_residual = true,
                              .residual_row_stride = n,
                              .activation = activation};
    ASSERT_EQ(Product::Prepare(spec, product), std::nullopt);
    EXPECT_FALSE(product.residual_may_be_c());
    const auto a = RandomFloats(k, 1), b = RandomFloats(n * k, 2);
    const auto bias = RandomFloats(n, 3), residual = RandomFloats(n, 4);
    std::vector<float> c(n, 9.0f), scratch(product.scratch_floats());
    product.Run({.a = a.data(),
                 .b = b.data(),
                 .bias = bias.data(),
                 .residual = residual.data(),
                 .c = c.data(),
                 .scratch = scratch.data()});
    for (int64_t i = 0; i < n; ++i) {
      double sum = bias[i];
      for (int64_t x = 0; x < k; ++x) {
        sum += static_cast<double>(a[x]) * b[x * n + i];
      }
      if (activation == Activation::kRelu) sum = std::max(sum, 0.0);
      if (activation == Activation::kSigmoid) sum = 1 / (1 + std::exp(-sum));
      ASSERT_NEAR(c[i], sum + residual[i], 1e-4) << "element " << i;
    }
  }
}

TEST(ProductTest, OuterProductsAreWrittenRowByRow) {
  for (int64_t k : {1, 2, 8}) {
    for (bool is_frozen : {false, true}) {
      Check({.m = 300, .n = 777, .k = k, .is_frozen = is_frozen}, true);
      Check({.m = 300, .n = 777, .k = k, .has_bias = true}, false);
    }
  }
}

TEST(ProductTest, ThreadsShareRowsOrColumns) {
  for (bool is_frozen : {false, true}) {
    for (bool is_transposed : {false, true}) {
      Check({.m = 300,
             .n = 70,
             .k = 130,
             .has_bias = true,
             .is_frozen = is_frozen,
             .num_threads = 3},
            is_transposed);
      Check({.m = 20,
             .n = 500,
             .k = 1024,  // Rows at a page's distance are copied.
             .has_bias = true,
             .is_frozen = is_frozen,
             .num_threads = 5},
            is_transposed);
    }
  }
}

TEST(ProductTest, ThreadsShareABatch) {
  for (bool is_frozen : {false, true}) {
    for (bool is_transposed : {false, true}) {
      Check({.batch = 7,
             .m = 40,
             .n = 50,
             .k = 60,
             .is_frozen = is_frozen,
             .num_threads = 3},
            is_transposed);
    }
  }
}

TEST(ProductTest, SaysWhatItCannotRead) {
  Product product;
  EXPECT_EQ(Product::Prepare({.m = 2,
                              .n = 3,
                              .k = 4,
                              .a_row_stride = 4,
                              .b_row_stride = 7,
                              .b_col_stride = 2,
                              .c_row_stride = 3},
                             product),
            "b has gaps in rows and columns");
}

}  // namespace
}  // namespace mica::cpu
