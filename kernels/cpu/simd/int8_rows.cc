// A few rows of float32 times weights of signed bytes, as fast as these come
// from memory.

#include <cstdint>

#include "kernels/cpu/few_bits_loops.h"
#include "kernels/cpu/simd/gemm.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// kLanes bytes as floats.
MICA_INLINE Vf WidenBytes(const int8_t* p) {
#if defined(__AVX512F__)
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(__AVX2__)
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  return Vf{static_cast<float>(p[0]), static_cast<float>(p[1]),
            static_cast<float>(p[2]), static_cast<float>(p[3])};
#endif
}

// How far ahead bytes are fetched: memory takes its time, and the processor's
// own guess ends at a page.
constexpr int64_t kBytesAhead = 2048;

// kRows rows times a panel. kPhases sums for each element of the result, so
// that one needn't wait for another.
template <int kRows, int kPhases>
MICA_INLINE void ByteTile(const FloatByInt8Args& g, const int8_t* w,
                          int64_t row, int64_t col, int64_t cols) {
  const float* x = g.x + row * g.x_row_stride;
  Vf acc[kRows][kPhases][2];
  MICA_UNROLL
  for (int i = 0; i < kRows * kPhases * 2; ++i) {
    acc[i / 2 / kPhases][i / 2 % kPhases][i % 2] = Zero();
  }
  const auto add = [&](int64_t k, int phase) MICA_INLINE_LAMBDA {
    const Vf first = WidenBytes(w), second = WidenBytes(w + kLanes);
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Vf factor = Set(x[i * g.x_row_stride + k]);
      AddProduct(factor, first, acc[i][phase][0]);
      AddProduct(factor, second, acc[i][phase][1]);
    }
    w += kPanelCols;
  };
  int64_t k = 0;
  for (; k + 4 <= g.k; k += 4) {
    __builtin_prefetch(w + kBytesAhead, 0, 3);
    if (kPanelCols > 16) __builtin_prefetch(w + kBytesAhead + 64, 0, 3);
    MICA_UNROLL
    for (int j = 0; j < 4; ++j) add(k + j, j % kPhases);
  }
  for (; k < g.k; ++k) add(k, 0);
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    float* out = g.c + (row + i) * g.c_row_stride + col;
    MICA_UNROLL
    for (int j = 0; j < 2; ++j) {
      const int64_t left = cols - j * kLanes;
      if (left <= 0) break;
      const Vm m = FirstLanes(left < kLanes ? left : kLanes);
      Vf sum = acc[i][0][j];
      MICA_UNROLL
      for (int p = 1; p < kPhases; ++p) sum = sum + acc[i][p][j];
      sum = sum * Load(g.w_scales + col + j * kLanes, m);
      if (g.bias != nullptr) sum = sum + Load(g.bias + col + j * kLanes, m);
      Store(out + j * kLanes, sum, m);
    }
  }
}

void ByteRows(const FloatByInt8Args& g) {
  for (int64_t col = 0; col < g.n; col += kPanelCols) {
    const int8_t* w = g.w + col * g.k;
    const int64_t cols = g.n - col < kPanelCols ? g.n - col : kPanelCols;
    int64_t row = 0;
    for (; row + 4 <= g.m; row += 4) ByteTile<4, 1>(g, w, row, col, cols);
    if (row + 2 <= g.m) {
      ByteTile<2, 2>(g, w, row, col, cols);
      row += 2;
    }
    if (row < g.m) ByteTile<1, 4>(g, w, row, col, cols);
  }
  ClearUpperHalves();
}

void PackByteRows(const int8_t* w, int64_t row_stride, int64_t n, int64_t k,
                  int8_t* dst) {
  for (int64_t panel = 0; panel < n; panel += kPanelCols) {
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t col = panel; col < panel + kPanelCols; ++col) {
        *dst++ = col < n ? w[col * row_stride + i] : int8_t{0};
      }
    }
  }
}

void Widen(const int8_t* panel, const float* scales, int64_t n, int64_t k,
           float* dst) {
  const Vf first = Load(scales, FirstLanes(n < kLanes ? n : kLanes));
  const Vf second =
      n > kLanes ? Load(scales + kLanes, FirstLanes(n - kLanes)) : Zero();
  for (int64_t i = 0; i < k; ++i) {
    Store(dst, WidenBytes(panel) * first);
    Store(dst + kLanes, WidenBytes(panel + kLanes) * second);
    panel += kPanelCols;
    dst += kPanelCols;
  }
  ClearUpperHalves();
}

}  // namespace

// Declared in few_bits_table.cc.
void FillInt8Rows(FewBitsTable& table) {
  table.int8.pack_rows = PackByteRows;
  table.int8.rows = ByteRows;
  table.int8.widen = Widen;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
