#include "kernels/cpu/onednn_matmul.h"

#include <cmath>
#include <vector>

#include "framework/base/test_matchers.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

constexpr int64_t kBatch = 2, kM = 5, kN = 19, kK = 12;

double Exact(const std::vector<float>& a, const std::vector<float>& w,
             int64_t batch, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t x = 0; x < kK; ++x) {
    sum += static_cast<double>(a[(batch * kM + i) * kK + x]) *
           w[(batch * kN + j) * kK + x];
  }
  return sum;
}

// b is read as the transpose of w[batch, n, k].
OneDnnMatmulSpec Spec(int64_t batch) {
  return {.batch = batch,
          .m = kM,
          .n = kN,
          .k = kK,
          .a_strides = {kM * kK, kK, 1},
          .b_strides = {kN * kK, 1, kK},
          .c_strides = {kM * kN, kN, 1}};
}

TEST(OneDnnMatmulTest, TakesTransposedBatches) {
  const auto a = RandomFloats(kBatch * kM * kK, 1);
  const auto w = RandomFloats(kBatch * kN * kK, 2);
  std::vector<float> c(kBatch * kM * kN);
  MICA_ASSERT_OK_AND_ASSIGN(auto matmul, OneDnnMatmul::Create(Spec(kBatch)));
  MICA_ASSERT_OK_AND_ASSIGN(auto run, OneDnnMatmulRun::Create(*matmul));
  std::vector<char> scratch(matmul->scratch_bytes() + 64);
  MICA_ASSERT_OK(
      run->Run(a.data(), w.data(), nullptr, nullptr, c.data(), scratch.data()));
  for (int64_t i = 0; i < kBatch * kM * kN; ++i) {
    EXPECT_NEAR(c[i], Exact(a, w, i / (kM * kN), i / kN % kM, i % kN), 1e-5);
  }
}

TEST(OneDnnMatmulTest, PackedWeightsBiasActivationAndResidual) {
  const auto a = RandomFloats(kM * kK, 1), w = RandomFloats(kN * kK, 2);
  const auto bias = RandomFloats(kN, 3), residual = RandomFloats(kM * kN, 4);
  std::vector<float> c(kM * kN);
  OneDnnMatmulSpec spec = Spec(1);
  spec.has_bias = spec.has_residual = spec.is_packed = true;
  spec.activation = Activation::kTanh;
  MICA_ASSERT_OK_AND_ASSIGN(auto matmul, OneDnnMatmul::Create(spec));
  MICA_ASSERT_OK_AND_ASSIGN(auto run, OneDnnMatmulRun::Create(*matmul));
  std::vector<char> packed(matmul->packed_bytes());
  MICA_ASSERT_OK(matmul->Pack(w.data(), packed.data()));
  std::vector<char> scratch(matmul->scratch_bytes() + 64);
  MICA_ASSERT_OK(
      run->Run(a.data(), reinterpret_cast<const float*>(packed.data()),
               bias.data(), residual.data(), c.data(), scratch.data()));
  for (int64_t i = 0; i < kM * kN; ++i) {
    const double v = Exact(a, w, 0, i / kN, i % kN) + bias[i % kN];
    EXPECT_NEAR(c[i], std::tanh(v) + residual[i], 1e-5);
  }
}

TEST(OneDnnMatmulTest, AnImpossibleProductIsAStatus) {
  OneDnnMatmulSpec spec = Spec(1);
  spec.m = -1;
  EXPECT_THAT(OneDnnMatmul::Create(spec),
              StatusIs(absl::StatusCode::kInternal,
                       ::testing::HasSubstr("onednn: memory_desc_create")));
}

}  // namespace
}  // namespace mica::cpu
