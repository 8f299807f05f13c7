#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

// One product of every form, against doubles.
struct Problem {
  Problem(int64_t m, int64_t n, int64_t k)
      : m(m),
        n(n),
        k(k),
        a(RandomFloats(m * k, 1)),
        w(RandomFloats(n * k, 2)),
        bias(RandomFloats(n, 3)),
        residual(RandomFloats(m * n, 4)) {}

  double Exact(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t x = 0; x < k; ++x) {
      sum += static_cast<double>(a[i * k + x]) * w[j * k + x];
    }
    return sum;
  }
  // b[k, n] = transpose of w[n, k].
  std::vector<float> PlainB() const {
    std::vector<float> b(static_cast<size_t>(n * k));
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t x = 0; x < k; ++x) b[x * n + j] = w[j * k + x];
    }
    return b;
  }

  int64_t m, n, k;
  std::vector<float> a, w, bias, residual;
};

class GemmTest : public SimdTest {
 protected:
  GemmArgs Packed(const Problem& p, const std::vector<float>& packed,
                  std::vector<float>& c) const {
    return {.a = p.a.data(),
            .a_row_stride = p.k,
            .b = packed.data(),
            .b_row_stride = table().gemm_cols,
            .b_panel_stride = table().gemm_cols * p.k,
            .c = c.data(),
            .c_row_stride = p.n,
            .m = p.m,
            .n = p.n,
            .k = p.k};
  }
  std::vector<float> PackTransposed(const Problem& p) const {
    std::vector<float> packed(table().PackedFloats(p.n, p.k));
    table().pack_transposed(p.w.data(), p.k, p.n, p.k, 1.0f, packed.data());
    return packed;
  }
};

void ExpectProduct(const Problem& p, const std::vector<float>& c) {
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      ASSERT_NEAR(c[i * p.n + j], p.Exact(i, j), 1e-5 * (1 + p.k / 16))
          << p.m << "x" << p.n << "x" << p.k << " at " << i << "," << j;
    }
  }
}

TEST_P(GemmTest, EverySizeGivesTheProduct) {
  for (int64_t m : {1, 2, 5, 6, 7, 8, 13, 14, 15, 29}) {
    for (int64_t n : {1, 8, 15, 16, 17, 31, 32, 33, 64, 100}) {
      for (int64_t k : {1, 3, 16, 33}) {
        const Problem p(m, n, k);
        std::vector<float> c(m * n);
        const auto packed = PackTransposed(p);
        table().gemm(Packed(p, packed, c));
        ExpectProduct(p, c);
        const auto b = p.PlainB();
        std::vector<float> repacked(packed.size());
        table().pack_plain(b.data(), n, n, k, repacked.data());
        EXPECT_EQ(repacked, packed);
        std::fill(c.begin(), c.end(), 0.0f);
        GemmArgs args = Packed(p, b, c);
        args.b_row_stride = n;
        args.b_panel_stride = table().gemm_cols;
        table().gemm(args);
        ExpectProduct(p, c);
        std::fill(c.begin(), c.end(), 0.0f);
        table().dot_products({.x = p.a.data(),
                              .x_row_stride = k,
                              .w = p.w.data(),
                              .w_row_stride = k,
                              .out = c.data(),
                              .out_row_stride = n,
                              .m = m,
                              .n = n,
                              .k = k});
        ExpectProduct(p, c);
      }
    }
  }
}

TEST_P(GemmTest, DeepProductsGoByBlocksOfRowsAndCopyThoseOfOnePage) {
  for (int64_t k : {1024, 3000}) {
    const Problem p(100, 40, k);
    std::vector<float> c(p.m * p.n);
    const auto packed = PackTransposed(p);
    GemmArgs args = Packed(p, packed, c);
    std::vector<float> scratch(table().gemm_scratch_floats(k, p.m, k));
    EXPECT_EQ(scratch.empty(), k != 1024);
    args.scratch = scratch.empty() ? nullptr : scratch.data();
    table().gemm(args);
    ExpectProduct(p, c);
  }
}

TEST_P(GemmTest, BiasActivationAndResidualComeInThisOrder) {
  for (int64_t m : {3, 20}) {
    const Problem p(m, 45, 10);
    const auto packed = PackTransposed(p);
    for (Activation activation :
         {Activation::kNone, Activation::kRelu, Activation::kGeluErf,
          Activation::kGeluTanh, Activation::kTanh}) {
      std::vector<float> c = p.residual;  // The residual in place.
      GemmArgs args = Packed(p, packed, c);
      args.bias = p.bias.data();
      args.activation = activation;
      const bool late =
          activation != Activation::kNone && activation != Activation::kRelu;
      args.residual = late ? p.residual.data() : c.data();
      args.residual_row_stride = p.n;
      table().gemm(args);
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t j = 0; j < p.n; ++j) {
          double v = p.Exact(i, j) + p.bias[j];
          if (activation == Activation::kRelu) v = v > 0 ? v : 0;
          if (activation == Activation::kTanh) v = std::tanh(v);
          if (activation == Activation::kGeluErf) {
            v = 0.5 * v * (1 + std::erf(v * M_SQRT1_2));
          }
          if (activation == Activation::kGeluTanh) {
            const double u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
            v = 0.5 * v * (1 + std::tanh(u));
          }
          ASSERT_NEAR(c[i * p.n + j], v + p.residual[i * p.n + j], 1e-5);
        }
      }
    }
  }
}

TEST_P(GemmTest, AnEmptySumLeavesTheBias) {
  const Problem p(3, 5, 0);
  std::vector<float> c(15, 9.0f), packed;
  GemmArgs args = Packed(p, packed, c);
  args.bias = p.bias.data();
  table().gemm(args);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(c[i], p.bias[i % 5]);
}

MICA_INSTANTIATE_SIMD_TEST(GemmTest);

}  // namespace
}  // namespace mica::cpu
