#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

class AttentionTest : public SimdTest {
 protected:
  // Runs the head, with scratch, and compares it with doubles.
  void Check(AttentionHeadArgs args) const {
    std::vector<float> scratch(table().attention_scratch_floats(
        args.num_keys, args.head_dim, args.value_dim));
    std::vector<float> out(args.num_queries * args.out_row_stride, 7.0f);
    std::vector<float> lse(args.num_queries);
    args.scratch = scratch.data();
    args.out = out.data();
    args.lse = lse.data();
    args.lse_stride = 1;
    table().attention_head(args);
    for (int64_t i = 0; i < args.num_queries; ++i) {
      double exact_lse = 0;
      const auto want = ExactRow(args, i, exact_lse);
      EXPECT_NEAR(lse[i], exact_lse, 1e-5);
      for (int64_t d = 0; d < args.value_dim; ++d) {
        ASSERT_NEAR(out[i * args.out_row_stride + d], want[d], 2e-6)
            << i << " of " << args.num_queries << "x" << args.num_keys;
      }
    }
  }

 private:
  static double Score(const AttentionHeadArgs& args, int64_t i, int64_t j) {
    if (args.is_causal && j > i) return -kInf;
    const int64_t at = i * args.mask_row_stride + j * args.mask_col_stride;
    if (args.bool_mask != nullptr && !args.bool_mask[at]) return -kInf;
    double s = 0;
    for (int64_t d = 0; d < args.head_dim; ++d) {
      s += static_cast<double>(args.q[i * args.q_row_stride + d]) *
           args.k[j * args.k_row_stride + d];
    }
    s *= args.scale;
    return args.mask != nullptr ? s + args.mask[at] : s;
  }

  static std::vector<double> ExactRow(const AttentionHeadArgs& args, int64_t i,
                                      double& lse) {
    std::vector<double> out(args.value_dim);
    double sum = 0;
    for (int64_t j = 0; j < args.num_keys; ++j) {
      const double e = std::exp(Score(args, i, j));
      sum += e;
      for (int64_t d = 0; d < args.value_dim; ++d) {
        out[d] += e * args.v[j * args.v_row_stride + d];
      }
    }
    for (double& v : out) v = sum == 0 ? 0 : v / sum;
    lse = sum == 0 ? 0 : std::log(sum);
    return out;
  }
};

TEST_P(AttentionTest, IsASoftmaxWeightedSumForAnySize) {
  for (int64_t queries : {1, 3, 4, 7, 16, 40}) {
    for (int64_t keys : {1, 9, 32, 50}) {
      for (int64_t dim : {1, 8, 32, 40, 64}) {
        const auto q = RandomFloats(queries * (dim + 3), 1);
        const auto k = RandomFloats(keys * (dim + 5), 2);
        const auto v = RandomFloats(keys * (dim + 1), 3);
        AttentionHeadArgs args = {.q = q.data(),
                                  .k = k.data(),
                                  .v = v.data(),
                                  .q_row_stride = dim + 3,
                                  .k_row_stride = dim + 5,
                                  .v_row_stride = dim + 1,
                                  .out_row_stride = dim + 2,
                                  .num_queries = queries,
                                  .num_keys = keys,
                                  .head_dim = dim,
                                  .value_dim = dim,
                                  .scale = 0.3f};
        Check(args);
        args.is_causal = true;
        Check(args);
      }
    }
  }
}

class MaskTest : public AttentionTest {
 protected:
  AttentionHeadArgs Args() const {
    return {.q = q_.data(),
            .k = k_.data(),
            .v = v_.data(),
            .q_row_stride = 16,
            .k_row_stride = 16,
            .v_row_stride = 16,
            .out_row_stride = 16,
            .num_queries = 20,
            .num_keys = 33,
            .head_dim = 16,
            .value_dim = 16,
            .scale = 0.25f};
  }
  std::vector<float> q_ = RandomFloats(20 * 16, 1);
  std::vector<float> k_ = RandomFloats(33 * 16, 2);
  std::vector<float> v_ = RandomFloats(33 * 16, 3);
};

TEST_P(MaskTest, AddsAMaskThatMayBeBroadcast) {
  auto mask = RandomFloats(20 * 33, 4);
  for (int i = 0; i < 20 * 33; i += 3) mask[i] = -INFINITY;
  AttentionHeadArgs args = Args();
  args.mask = mask.data();
  for (int64_t row : {0, 33}) {
    for (int64_t col : {1, 0, 2}) {
      args.mask_row_stride = col == 2 ? 0 : row;
      args.mask_col_stride = col;
      Check(args);
    }
  }
}

TEST_P(MaskTest, ARowWithoutKeysGivesZeros) {
  const auto mask = std::make_unique<bool[]>(20 * 33);
  for (int i = 0; i < 20 * 33; ++i) mask[i] = i / 33 != 5 && i % 4 != 1;
  AttentionHeadArgs args = Args();
  args.bool_mask = mask.get();
  args.mask_row_stride = 33;
  args.mask_col_stride = 1;
  Check(args);
  const std::vector<float> all(20 * 33, -INFINITY);
  args.bool_mask = nullptr;
  args.mask = all.data();
  Check(args);
}

TEST_P(MaskTest, TheLowestFiniteMaskIsNoEmptyRow) {
  const std::vector<float> lowest(33, std::numeric_limits<float>::lowest());
  AttentionHeadArgs args = Args();
  std::vector<float> out(20 * 16),
      scratch(table().attention_scratch_floats(33, 16, 16));
  args.mask = lowest.data();
  args.mask_col_stride = 1;
  args.out = out.data();
  args.scratch = scratch.data();
  table().attention_head(args);
  float mean = 0;
  for (int j = 0; j < 33; ++j) mean += v_[j * 16] / 33;
  EXPECT_NEAR(out[0], mean, 1e-6);
}

MICA_INSTANTIATE_SIMD_TEST(AttentionTest);
MICA_INSTANTIATE_SIMD_TEST(MaskTest);

}  // namespace
}  // namespace mica::cpu
