#include "kernels/cpu/onednn_matmul.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "framework/base/test_matchers.h"
#include "kernels/cpu/onednn.h"
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

class OneDnnMatmulTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CheckDnnlRuns().ok()) GTEST_SKIP() << CheckDnnlRuns();
  }
};

TEST(OneDnnTest, IsRefusedWhereItCanNotRun) {
  const auto made = OneDnnMatmul::Create(Spec(1));
  EXPECT_EQ(made.ok(), CheckDnnlRuns().ok());
  if (!made.ok()) {
    EXPECT_THAT(made, StatusIs(absl::StatusCode::kUnimplemented,
                               ::testing::HasSubstr("onednn: ")));
  }
}

TEST_F(OneDnnMatmulTest, TakesTransposedBatches) {
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

TEST_F(OneDnnMatmulTest, PackedWeightsBiasActivationAndResidual) {
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
  MICA_ASSERT_OK(run->Run(a.data(), packed.data(), bias.data(), residual.data(),
                          c.data(), scratch.data()));
  for (int64_t i = 0; i < kM * kN; ++i) {
    const double v = Exact(a, w, 0, i / kN, i % kN) + bias[i % kN];
    EXPECT_NEAR(c[i], std::tanh(v) + residual[i], 1e-5);
  }
}

// The upper halves, and the numbers that these are.
std::vector<uint16_t> ToBF16(std::vector<float>* numbers) {
  std::vector<uint16_t> halves;
  for (float& number : *numbers) {
    uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    halves.push_back(static_cast<uint16_t>(bits >> 16));
    bits &= 0xffff0000u;
    std::memcpy(&number, &bits, sizeof bits);
  }
  return halves;
}

TEST_F(OneDnnMatmulTest, BFloat16IsAccumulatedInFloat32) {
  auto a = RandomFloats(kM * kK, 1), w = RandomFloats(kN * kK, 2);
  auto bias = RandomFloats(kN, 3);
  const auto half_a = ToBF16(&a), half_w = ToBF16(&w),
             half_bias = ToBF16(&bias);
  for (const bool is_packed : {false, true}) {
    OneDnnMatmulSpec spec = Spec(1);
    spec.dtype = DType::kBF16;
    spec.has_bias = true;
    spec.is_packed = is_packed;
    const auto matmul = OneDnnMatmul::Create(spec);
    if (!matmul.ok()) {  // This processor has no instructions for it.
      EXPECT_THAT(matmul, StatusIs(absl::StatusCode::kUnimplemented,
                                   ::testing::HasSubstr("onednn")));
      continue;
    }
    MICA_ASSERT_OK_AND_ASSIGN(auto run, OneDnnMatmulRun::Create(**matmul));
    std::vector<char> packed((*matmul)->packed_bytes() + 64);
    MICA_ASSERT_OK((*matmul)->Pack(half_w.data(), packed.data()));
    std::vector<char> scratch((*matmul)->scratch_bytes() + 64);
    std::vector<uint16_t> c(kM * kN);
    const void* b =
        is_packed ? static_cast<const void*>(packed.data()) : half_w.data();
    MICA_ASSERT_OK(run->Run(half_a.data(), b, half_bias.data(), nullptr,
                            c.data(), scratch.data()));
    for (int64_t i = 0; i < kM * kN; ++i) {
      const uint32_t bits = static_cast<uint32_t>(c[i]) << 16;
      float got = 0;
      std::memcpy(&got, &bits, sizeof got);
      const double want = Exact(a, w, 0, i / kN, i % kN) + bias[i % kN];
      EXPECT_NEAR(got, want, 0.004 * std::abs(want) + 1e-5) << i;
    }
  }
}

TEST_F(OneDnnMatmulTest, PlainLoopsAreRefused) {
  OneDnnMatmulSpec spec = Spec(1);
  for (int64_t& stride : spec.b_strides) stride *= 2;
  EXPECT_THAT(OneDnnMatmul::Create(spec),
              StatusIs(absl::StatusCode::kUnimplemented,
                       ::testing::HasSubstr("plain loop")));
}

TEST_F(OneDnnMatmulTest, AnImpossibleProductIsAStatus) {
  OneDnnMatmulSpec spec = Spec(1);
  spec.m = -1;
  EXPECT_THAT(OneDnnMatmul::Create(spec),
              StatusIs(absl::StatusCode::kInternal,
                       ::testing::HasSubstr("onednn: memory_desc_create")));
}

}  // namespace
}  // namespace mica::cpu
