#include <cstdint>

#include "kernels/cpu/simd/gemm.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

// Products of few rows with a matrix whose columns are contiguous, as a linear
// layer's weight is: each element is a dot product, and nothing is packed.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Rows of x that meet four rows of w at a time: their sums, a vector of each
// and one of w fill the registers.
#if defined(__AVX512F__)
constexpr int kDotRows = 6;
#else
constexpr int kDotRows = 3;
#endif

constexpr int64_t kCachedFloats = 4 * 1024;

using Four = float __attribute__((vector_size(16)));

MICA_INLINE Four LoadFour(const float* p) {
  Four x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}

// Sums of four vectors' lanes, in order.
#if defined(__AVX2__)
MICA_INLINE Four SumFour(Vf a, Vf b, Vf c, Vf d) {
#if defined(__AVX512F__)
  const auto half = [](Vf x) {
    return _mm256_add_ps(_mm512_castps512_ps256(x),
                         _mm512_extractf32x8_ps(x, 1));
  };
  const __m256 ab = _mm256_hadd_ps(half(a), half(b));
  const __m256 cd = _mm256_hadd_ps(half(c), half(d));
#else
  const __m256 ab = _mm256_hadd_ps(a, b);
  const __m256 cd = _mm256_hadd_ps(c, d);
#endif
  const __m256 s = _mm256_hadd_ps(ab, cd);
  return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}
#else
MICA_INLINE Four SumFour(Vf a, Vf b, Vf c, Vf d) {
  Vf r[4] = {a, b, c, d};
  Transpose(r);
  return (r[0] + r[1]) + (r[2] + r[3]);
}
#endif

// What is added to the sums of four columns, or of one; bias and residual point
// to the first of them. A nan stays one.
template <bool kIsWhole>
MICA_INLINE void Put(const DotArgs& g, Four sum, const float* bias,
                     const float* residual, float* out) {
  if (kIsWhole) {
    if (bias != nullptr) sum += LoadFour(bias);
    if (g.has_relu) sum = Four{} > sum ? Four{} : sum;
    if (residual != nullptr) sum += LoadFour(residual);
    __builtin_memcpy(out, &sum, sizeof sum);
  } else {
    float one = sum[0];
    if (bias != nullptr) one += *bias;
    if (g.has_relu) one = 0.0f > one ? 0.0f : one;
    if (residual != nullptr) one += *residual;
    *out = one;
  }
}

// kRows rows of x, from `row` on, against four rows of w, or one.
template <int kRows, bool kIsWhole>
MICA_INLINE void FourDots(const DotArgs& g, int64_t row, int64_t col) {
  const float* x = g.x + row * g.x_row_stride;
  const float* w = g.w + col * g.w_row_stride;
  // A stride of 0 reads the one row four times.
  const int64_t w_step = kIsWhole ? g.w_row_stride : 0;
  Vf s[kRows][4];
  MICA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    MICA_UNROLL
    for (int j = 0; j < 4; ++j) s[r][j] = Zero();
  }
  auto step = [&](auto load) MICA_INLINE_LAMBDA {
    Vf v[kRows];
    MICA_UNROLL
    for (int r = 0; r < kRows; ++r) v[r] = load(x + r * g.x_row_stride);
    MICA_UNROLL
    for (int j = 0; j < 4; ++j) {
      const Vf u = load(w + j * w_step);
      MICA_UNROLL
      for (int r = 0; r < kRows; ++r) AddProduct(v[r], u, s[r][j]);
    }
  };
  int64_t i = 0;
  for (; i + kLanes <= g.k; i += kLanes) {
    step([i](const float* p) MICA_INLINE_LAMBDA { return Load(p + i); });
  }
  if (i < g.k) {
    const Vm m = FirstLanes(g.k - i);
    step([i, m](const float* p) MICA_INLINE_LAMBDA { return Load(p + i, m); });
  }
  MICA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    Put<kIsWhole>(g, SumFour(s[r][0], s[r][1], s[r][2], s[r][3]),
                  g.bias != nullptr ? g.bias + col : nullptr,
                  g.residual != nullptr
                      ? g.residual + (row + r) * g.residual_row_stride + col
                      : nullptr,
                  g.out + (row + r) * g.out_row_stride + col);
  }
}

template <int kRows>
void Columns(const DotArgs& g, int64_t row, int64_t begin, int64_t end) {
  int64_t col = begin;
  for (; col + 4 <= end; col += 4) FourDots<kRows, true>(g, row, col);
  for (; col < end; ++col) FourDots<kRows, false>(g, row, col);
}

using ColumnsFn = void (*)(const DotArgs&, int64_t, int64_t, int64_t);

struct DotTable {
  ColumnsFn by_rows[kDotRows + 1] = {};
};

template <int kRows>
constexpr void FillTable(DotTable& table) {
  table.by_rows[kRows] = Columns<kRows>;
  if constexpr (kRows > 1) FillTable<kRows - 1>(table);
}

constexpr DotTable MakeTable() {
  DotTable table;
  FillTable<kDotRows>(table);
  return table;
}

constexpr DotTable kDots = MakeTable();

}  // namespace

void DotProducts(const DotArgs& g) {
  // Rows of w that all rows of x meet while they are in the first-level cache.
  const int64_t fitting = kCachedFloats / (g.k > 0 ? g.k : 1) / 4 * 4;
  const int64_t cols = fitting > 4 ? fitting : 4;
  // Blocks of equal height, rather than a thin last one.
  const int64_t blocks = (g.m + kDotRows - 1) / kDotRows;
  for (int64_t begin = 0; begin < g.n; begin += cols) {
    const int64_t end = begin + cols < g.n ? begin + cols : g.n;
    for (int64_t t = 0, row = 0; t < blocks; ++t) {
      const int64_t rows = (g.m + t) / blocks;
      kDots.by_rows[rows](g, row, begin, end);
      row += rows;
    }
  }
}

void FillDots(SimdTable& table) { table.dot_products = DotProducts; }

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
