#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/few_bits_loops.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

// x[m,k] and w[n,k] of whole numbers.
struct NumberProblem {
  NumberProblem(int64_t m, int64_t n, int64_t k)
      : m(m),
        n(n),
        k(k),
        x(RandomFloats(m * k, 1)),
        scales(RandomFloats(n + 32, 2)),
        bias(RandomFloats(n, 3)),
        w(static_cast<size_t>(n * k)) {
    std::mt19937 random(4);
    for (int8_t& number : w) {
      number = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
    }
  }

  int64_t m, n, k;
  std::vector<float> x, scales, bias;
  std::vector<int8_t> w;
};

constexpr int64_t kRowCounts[] = {1, 2, 5, 6, 7, 14, 15, 29};
constexpr int64_t kColumnCounts[] = {1, 8, 15, 16, 17, 33, 64, 70};
constexpr int64_t kTermCounts[] = {1, 2, 3, 5, 16, 33, 130};

class FewBitsTest : public SimdTest {
 protected:
  void ExpectInt8Product(const Int8Loops& loops, const NumberProblem& p) {
    const int64_t cols = table().gemm_cols, row_bytes = loops.row_bytes(p.k);
    const int64_t panels = (p.n + cols - 1) / cols;
    std::vector<int8_t> packed(panels * loops.panel_bytes(p.k, cols));
    loops.pack(p.w.data(), p.k, p.n, p.k, packed.data());
    std::vector<char> numbers(p.m * row_bytes);
    std::vector<float> x_scales(p.m), c(p.m * p.n);
    std::vector<int32_t> sums(p.m);
    loops.quantise({.x = p.x.data(),
                    .x_row_stride = p.k,
                    .rows = p.m,
                    .k = p.k,
                    .out = numbers.data(),
                    .out_row_bytes = row_bytes,
                    .scales = x_scales.data(),
                    .sums = sums.data()});
    loops.gemm({.x = numbers.data(),
                .x_row_bytes = row_bytes,
                .x_scales = x_scales.data(),
                .x_sums = sums.data(),
                .w = packed.data(),
                .w_scales = p.scales.data(),
                .bias = p.bias.data(),
                .c = c.data(),
                .c_row_stride = p.n,
                .m = p.m,
                .n = p.n,
                .k = p.k});
    for (int64_t i = 0; i < p.m; ++i) {
      float size = 0;
      for (int64_t x = 0; x < p.k; ++x) {
        size = std::fmax(size, std::fabs(p.x[i * p.k + x]));
      }
      ASSERT_EQ(x_scales[i], size / 127.0f);
      for (int64_t j = 0; j < p.n; ++j) {
        int64_t sum = 0;
        for (int64_t x = 0; x < p.k; ++x) {
          sum += static_cast<int64_t>(
                     std::nearbyint(p.x[i * p.k + x] * (127.0f / size))) *
                 p.w[j * p.k + x];
        }
        const double want =
            static_cast<double>(sum) * x_scales[i] * p.scales[j] + p.bias[j];
        ASSERT_NEAR(c[i * p.n + j], want, 1e-5 * (1 + std::fabs(want)))
            << p.m << "x" << p.n << "x" << p.k << " at " << i << "," << j;
      }
    }
  }
};

TEST_P(FewBitsTest, QuantisedRowsGiveTheProductOfWholeNumbers) {
  for (int64_t m : kRowCounts) {
    for (int64_t n : kColumnCounts) {
      for (int64_t k : kTermCounts) {
        const NumberProblem p(m, n, k);
        ExpectInt8Product(FewBitsOf(table()).int8, p);
        if (HasFatalFailure()) return;
        ExpectInt8Product(FewBitsOf(table()).int8_by_pairs, p);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The largest sums there are stay in 32 bits.
TEST_P(FewBitsTest, LongSumsAreExact) {
  NumberProblem p(2, 3, Int8Loops::kMostTerms);
  for (float& x : p.x) x = 1;
  for (int8_t& number : p.w) number = 127;
  ExpectInt8Product(FewBitsOf(table()).int8, p);
  for (int8_t& number : p.w) number = -127;
  ExpectInt8Product(FewBitsOf(table()).int8_by_pairs, p);
}

TEST_P(FewBitsTest, ARowThatIsNotFiniteGivesNans) {
  const Int8Loops& loops = FewBitsOf(table()).int8;
  const int64_t k = 19;
  for (float bad : {kNan, kInf, -kInf}) {
    std::vector<float> x(2 * k, 1.0f);
    x[k - 1] = bad;
    std::vector<char> numbers(2 * loops.row_bytes(k));
    float scales[2];
    int32_t sums[2];
    loops.quantise({.x = x.data(),
                    .x_row_stride = k,
                    .rows = 2,
                    .k = k,
                    .out = numbers.data(),
                    .out_row_bytes = loops.row_bytes(k),
                    .scales = scales,
                    .sums = sums});
    EXPECT_TRUE(std::isnan(scales[0]));
    EXPECT_EQ(sums[0], 0);
    EXPECT_EQ(scales[1], 1 / 127.0f);
    EXPECT_EQ(sums[1], 127 * k);
  }
}

TEST_P(FewBitsTest, RowsOfFloatsMeetInt8Weights) {
  const Int8Loops& loops = FewBitsOf(table()).int8;
  const int64_t cols = table().gemm_cols;
  for (int64_t m : {1, 2, 3, 4, 7}) {
    for (int64_t n : kColumnCounts) {
      for (int64_t k : kTermCounts) {
        const NumberProblem p(m, n, k);
        const int64_t panels = (n + cols - 1) / cols;
        std::vector<int8_t> packed(panels * cols * k);
        loops.pack_rows(p.w.data(), k, n, k, packed.data());
        std::vector<float> c(m * n), wide(cols * k);
        loops.rows({.x = p.x.data(),
                    .x_row_stride = k,
                    .w = packed.data(),
                    .w_scales = p.scales.data(),
                    .bias = p.bias.data(),
                    .c = c.data(),
                    .c_row_stride = n,
                    .m = m,
                    .n = n,
                    .k = k});
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double want = 0;
            for (int64_t x = 0; x < k; ++x) {
              want += static_cast<double>(p.x[i * k + x]) * p.w[j * k + x];
            }
            want = want * p.scales[j] + p.bias[j];
            ASSERT_NEAR(c[i * n + j], want, 2e-3) << m << "x" << n << "x" << k;
          }
        }
        const int64_t last = (panels - 1) * cols;
        loops.widen(packed.data() + last * k, p.scales.data() + last, n - last,
                    k, wide.data());
        for (int64_t j = last; j < n; ++j) {
          ASSERT_EQ(wide[(k - 1) * cols + j - last],
                    p.scales[j] * p.w[j * k + k - 1]);
        }
      }
    }
  }
}

TEST_P(FewBitsTest, RowsOfFloatsMeetInt4Weights) {
  const Int4Loops& loops = FewBitsOf(table()).int4;
  const int64_t cols = table().gemm_cols, group = 16;
  std::mt19937 random(5);
  for (int64_t m : {1, 2, 3}) {
    for (int64_t n : kColumnCounts) {
      for (int64_t k : {1, 7, 8, 16, 33, 70}) {
        const int64_t panels = (n + cols - 1) / cols, stride = panels * cols;
        const int64_t parts = (k + group - 1) / group;
        const int64_t padded = (k + 7) / 8 * 8;
        std::vector<uint8_t> w(n * ((k + 1) / 2));
        for (uint8_t& byte : w) byte = static_cast<uint8_t>(random());
        const auto scales = RandomFloats(parts * stride, 6);
        const auto offsets = RandomFloats(parts * stride, 7);
        const auto bias = RandomFloats(n, 8);
        auto x = RandomFloats(m * padded, 9);
        std::vector<float> sums(m * parts), c(m * n), wide(cols * k);
        for (int64_t i = 0; i < m * padded; ++i) {
          if (i % padded >= k) x[i] = 0;
          sums[i / padded * parts + i % padded / group] += x[i];
        }
        std::vector<uint32_t> packed(panels * loops.panel_words(k, cols));
        loops.pack(w.data(), (k + 1) / 2, n, k, packed.data());
        const FloatByInt4Args args{.x = x.data(),
                                   .x_row_stride = padded,
                                   .x_sums = sums.data(),
                                   .w = packed.data(),
                                   .scales = scales.data(),
                                   .offsets = offsets.data(),
                                   .part_stride = stride,
                                   .num_parts = parts,
                                   .group = group,
                                   .bias = bias.data(),
                                   .c = c.data(),
                                   .c_row_stride = n,
                                   .m = m,
                                   .n = n,
                                   .k = k};
        loops.rows(args);
        const auto weight = [&](int64_t j, int64_t i) {
          const int byte = w[j * ((k + 1) / 2) + i / 2];
          const int64_t at = i / group * stride + j;
          return static_cast<double>(scales[at]) * (byte >> i % 2 * 4 & 15) +
                 offsets[at];
        };
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double want = bias[j];
            for (int64_t at = 0; at < k; ++at) {
              want += x[i * padded + at] * weight(j, at);
            }
            ASSERT_NEAR(c[i * n + j], want, 5e-4) << m << "x" << n << "x" << k;
          }
        }
        loops.widen(args, panels - 1, 0, k, wide.data());
        for (int64_t j = (panels - 1) * cols; j < n; ++j) {
          ASSERT_NEAR(wide[(k - 1) * cols + j % cols], weight(j, k - 1), 1e-5);
        }
      }
    }
  }
}

MICA_INSTANTIATE_SIMD_TEST(FewBitsTest);

}  // namespace
}  // namespace mica::cpu
