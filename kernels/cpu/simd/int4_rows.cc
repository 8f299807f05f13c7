// Rows of float32 times weights of 4 bits, with a scale and an offset for each
// group of them.

#include <cstdint>

#include "kernels/cpu/few_bits_loops.h"
#include "kernels/cpu/simd/gemm.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Weights of a column that share a word.
constexpr int kOfWord = 8;

#if defined(__AVX512F__)

using Words = __m512i;

// Number `index` of each word as a float.
struct Nibbles {
  Vf table =
      _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  // Of an index the low four bits count.
  template <int kIndex>
  MICA_INLINE Vf Get(Words words) const {
    if constexpr (kIndex == 0) return _mm512_permutexvar_ps(words, table);
    return _mm512_permutexvar_ps(_mm512_srli_epi32(words, 4 * kIndex), table);
  }
};
MICA_INLINE Words LoadWords(const uint32_t* p) { return _mm512_loadu_si512(p); }

#elif defined(__AVX2__)

using Words = __m256i;

struct Nibbles {
  template <int kIndex>
  MICA_INLINE Vf Get(Words words) const {
    return _mm256_cvtepi32_ps(_mm256_and_si256(
        _mm256_srli_epi32(words, 4 * kIndex), _mm256_set1_epi32(15)));
  }
};
MICA_INLINE Words LoadWords(const uint32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

#else

using Words = Vu;

struct Nibbles {
  template <int kIndex>
  MICA_INLINE Vf Get(Words words) const {
    return __builtin_convertvector(
        reinterpret_cast<Vi>(words >> (4 * kIndex) & 15u), Vf);
  }
};
MICA_INLINE Words LoadWords(const uint32_t* p) {
  Words words;
  __builtin_memcpy(&words, p, sizeof words);
  return words;
}

#endif

constexpr int64_t kWordsAhead = 512;

// A group's sums of x times the numbers of two vectors of columns.
template <int kRows>
struct GroupSums {
  Vf acc[kRows][2][2];
};

template <int kRows, int kIndex>
MICA_INLINE void AddNibbles(const Nibbles& nibbles, Words first, Words second,
                            const float* x, int64_t stride,
                            GroupSums<kRows>& sums) {
  const Vf a = nibbles.Get<kIndex>(first), b = nibbles.Get<kIndex>(second);
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    const Vf factor = Set(x[i * stride + kIndex]);
    AddProduct(factor, a, sums.acc[i][kIndex % 2][0]);
    AddProduct(factor, b, sums.acc[i][kIndex % 2][1]);
  }
  if constexpr (kIndex + 1 < kOfWord) {
    AddNibbles<kRows, kIndex + 1>(nibbles, first, second, x, stride, sums);
  }
}

// x has zeros up to a whole word.
template <int kRows>
MICA_INLINE void NibbleTile(const FloatByInt4Args& g, const uint32_t* w,
                            int64_t row, int64_t col, int64_t cols) {
  const Nibbles nibbles;
  const float* x = g.x + row * g.x_row_stride;
  Vf total[kRows][2];
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) total[i][0] = total[i][1] = Zero();
  const Vf zero = Zero();
  for (int64_t begin = 0, part = 0; begin < g.k; begin += g.group, ++part) {
    GroupSums<kRows> sums;
    MICA_UNROLL
    for (int i = 0; i < kRows * 4; ++i)
      sums.acc[i / 4][i / 2 % 2][i % 2] = zero;
    const int64_t end = begin + g.group < g.k ? begin + g.group : g.k;
    for (int64_t k = begin; k < end; k += kOfWord) {
      __builtin_prefetch(w + kWordsAhead, 0, 3);
      if (kPanelCols > 16) __builtin_prefetch(w + kWordsAhead + 16, 0, 3);
      AddNibbles<kRows, 0>(nibbles, LoadWords(w), LoadWords(w + kLanes), x + k,
                           g.x_row_stride, sums);
      w += kPanelCols;
    }
    const float* scales = g.scales + part * g.part_stride + col;
    const float* offsets = g.offsets + part * g.part_stride + col;
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Vf of_x = Set(g.x_sums[(row + i) * g.num_parts + part]);
      MICA_UNROLL
      for (int j = 0; j < 2; ++j) {
        const Vf sum = sums.acc[i][0][j] + sums.acc[i][1][j];
        total[i][j] = Fma(sum, Load(scales + j * kLanes), total[i][j]);
        total[i][j] = Fma(of_x, Load(offsets + j * kLanes), total[i][j]);
      }
    }
  }
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    float* out = g.c + (row + i) * g.c_row_stride + col;
    MICA_UNROLL
    for (int j = 0; j < 2; ++j) {
      const int64_t left = cols - j * kLanes;
      if (left <= 0) break;
      const Vm m = FirstLanes(left < kLanes ? left : kLanes);
      Vf y = total[i][j];
      if (g.bias != nullptr) y = y + Load(g.bias + col + j * kLanes, m);
      Store(out + j * kLanes, y, m);
    }
  }
}

void NibbleRows(const FloatByInt4Args& g) {
  const int64_t words = (g.k + kOfWord - 1) / kOfWord * kPanelCols;
  for (int64_t col = 0; col < g.n; col += kPanelCols) {
    const uint32_t* w = g.w + col / kPanelCols * words;
    const int64_t cols = g.n - col < kPanelCols ? g.n - col : kPanelCols;
    int64_t row = 0;
    for (; row + 2 <= g.m; row += 2) NibbleTile<2>(g, w, row, col, cols);
    if (row < g.m) NibbleTile<1>(g, w, row, col, cols);
  }
  ClearUpperHalves();
}

void PackNibbles(const uint8_t* w, int64_t row_stride, int64_t n, int64_t k,
                 uint32_t* dst) {
  for (int64_t panel = 0; panel < n; panel += kPanelCols) {
    for (int64_t i = 0; i < k; i += kOfWord) {
      for (int64_t col = panel; col < panel + kPanelCols; ++col) {
        uint32_t word = 0;
        for (int64_t j = 0; j < kOfWord && i + j < k && col < n; j += 2) {
          uint32_t byte = w[col * row_stride + (i + j) / 2];
          // Of an odd k the last half byte is nobody's.
          if (i + j + 1 >= k) byte &= 15;
          word |= byte << (4 * j);
        }
        *dst++ = word;
      }
    }
  }
}

template <int kIndex>
MICA_INLINE void WidenNibbles(const Nibbles& nibbles, Words first, Words second,
                              const Vf (&scale)[2], const Vf (&offset)[2],
                              int64_t count, float* dst) {
  if (kIndex >= count) return;
  Store(dst, Fma(nibbles.Get<kIndex>(first), scale[0], offset[0]));
  Store(dst + kLanes, Fma(nibbles.Get<kIndex>(second), scale[1], offset[1]));
  if constexpr (kIndex + 1 < kOfWord) {
    WidenNibbles<kIndex + 1>(nibbles, first, second, scale, offset, count,
                             dst + kPanelCols);
  }
}

// From `k_begin`, a multiple of a word.
void Widen4(const FloatByInt4Args& g, int64_t panel, int64_t k_begin,
            int64_t k_end, float* dst) {
  const Nibbles nibbles;
  const int64_t words = (g.k + kOfWord - 1) / kOfWord * kPanelCols;
  const uint32_t* w = g.w + panel * words + k_begin / kOfWord * kPanelCols;
  for (int64_t k = k_begin; k < k_end; k += kOfWord) {
    const int64_t at = k / g.group * g.part_stride + panel * kPanelCols;
    const Vf scale[2] = {Load(g.scales + at), Load(g.scales + at + kLanes)};
    const Vf offset[2] = {Load(g.offsets + at), Load(g.offsets + at + kLanes)};
    const int64_t count = k_end - k < kOfWord ? k_end - k : kOfWord;
    WidenNibbles<0>(nibbles, LoadWords(w), LoadWords(w + kLanes), scale, offset,
                    count, dst);
    w += kPanelCols;
    dst += count * kPanelCols;
  }
  ClearUpperHalves();
}

}  // namespace

// Declared in few_bits_table.cc.
void FillInt4Rows(FewBitsTable& table) {
  table.int4.pack = PackNibbles;
  table.int4.rows = NibbleRows;
  table.int4.widen = Widen4;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
