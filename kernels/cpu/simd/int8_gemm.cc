// Products of whole numbers: rows that are quantised as they come, weights that
// were packed before.

#include <cstdint>

#include "kernels/cpu/few_bits_loops.h"
#include "kernels/cpu/simd/gemm.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// A row whose largest number is below this has no scale that can be inverted;
// it counts as zeros.
constexpr float kSmallest = 1e-36f;

#if defined(__AVX512F__)

// kLanes whole numbers.
using Vn = __m512i;

MICA_INLINE Vn ZeroNumbers() { return _mm512_setzero_si512(); }
MICA_INLINE Vn SetNumbers(int32_t x) { return _mm512_set1_epi32(x); }
MICA_INLINE Vn AddNumbers(Vn a, Vn b) { return _mm512_add_epi32(a, b); }
MICA_INLINE Vn SubtractNumbers(Vn a, Vn b) { return _mm512_sub_epi32(a, b); }
MICA_INLINE int32_t SumNumbers(Vn a) { return _mm512_reduce_add_epi32(a); }
MICA_INLINE Vf ToFloats(Vn a) { return _mm512_cvtepi32_ps(a); }
// To the nearest, of two to the even one.
MICA_INLINE Vn ToNumbers(Vf a) { return _mm512_cvtps_epi32(a); }
MICA_INLINE void StoreNumbers(int8_t* p, Vn a, Vm m) {
  _mm512_mask_cvtepi32_storeu_epi8(p, m, a);
}
MICA_INLINE void StoreNumbers(int16_t* p, Vn a, Vm m) {
  _mm512_mask_cvtepi32_storeu_epi16(p, m, a);
}
// sum += Σ of x's two numbers times those of each column.
MICA_INLINE void AddPairs(const int16_t* x, const int8_t* w, Vn& sum) {
  int32_t pair;
  __builtin_memcpy(&pair, x, sizeof pair);
  const __m512i column = _mm512_cvtepi8_epi16(
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)));
  sum =
      _mm512_add_epi32(sum, _mm512_madd_epi16(column, _mm512_set1_epi32(pair)));
}
// The same of four, the column's being 0..255.
MICA_INLINE void AddFours(const int8_t* x, Vn w, Vn& sum) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum)
      : "v"(w), "m"(*reinterpret_cast<const int32_t*>(x)));
}
MICA_INLINE Vn LoadNumbers(const int8_t* p) { return _mm512_loadu_si512(p); }

#elif defined(__AVX2__)

using Vn = __m256i;

MICA_INLINE Vn ZeroNumbers() { return _mm256_setzero_si256(); }
MICA_INLINE Vf ToFloats(Vn a) { return _mm256_cvtepi32_ps(a); }
MICA_INLINE void AddPairs(const int16_t* x, const int8_t* w, Vn& sum) {
  int32_t pair;
  __builtin_memcpy(&pair, x, sizeof pair);
  const __m256i column = _mm256_cvtepi8_epi16(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(w)));
  sum =
      _mm256_add_epi32(sum, _mm256_madd_epi16(column, _mm256_set1_epi32(pair)));
}

#else

using Vn = Vi;

MICA_INLINE Vn ZeroNumbers() { return Vn{}; }
MICA_INLINE Vf ToFloats(Vn a) { return __builtin_convertvector(a, Vf); }
MICA_INLINE void AddPairs(const int16_t* x, const int8_t* w, Vn& sum) {
  const int32_t first = x[0], second = x[1];
  MICA_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    sum[i] += first * w[2 * i] + second * w[2 * i + 1];
  }
}

#endif

// A row's scale; NaN if one of its numbers isn't finite.
MICA_INLINE float ScaleOf(const float* x, int64_t k, float* inverse) {
  Vf largest = Zero(), bad = Zero();
  int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    const Vf v = Load(x + i);
    largest = Max(largest, Abs(v));
    bad = Fma(v, Zero(), bad);
  }
  if (i < k) {
    const Vf v = Load(x + i, FirstLanes(k - i));
    largest = Max(largest, Abs(v));
    bad = Fma(v, Zero(), bad);
  }
  *inverse = 0;
  const float not_finite = SumLanes(bad);
  if (not_finite != 0) return not_finite;
  const float size = MaxLanes(largest);
  if (size < kSmallest) return 0;
  *inverse = 127.0f / size;
  return size / 127.0f;
}

// A row's numbers, zeros up to a whole group; their sum.
template <typename T>
int32_t QuantiseRow(const float* x, int64_t k, float inverse, int group,
                    T* out) {
  int64_t i = 0;
  int32_t sum = 0;
#if defined(__AVX512F__)
  const Vf factor = Set(inverse);
  Vn sums = ZeroNumbers();
  for (; i < k; i += kLanes) {
    const Vm m = FirstLanes(k - i < kLanes ? k - i : kLanes);
    // Of what isn't finite 0 times it is NaN, and the scale says so.
    const Vn numbers =
        inverse == 0 ? ZeroNumbers() : ToNumbers(Load(x + i, m) * factor);
    sums = AddNumbers(sums, numbers);
    StoreNumbers(out + i, numbers, m);
  }
  sum = SumNumbers(sums);
  i = k;
#else
  for (; i + kLanes <= k; i += kLanes) {
    float rounded[kLanes];
    Store(rounded, Round(Load(x + i) * Set(inverse)));
    MICA_UNROLL
    for (int j = 0; j < kLanes; ++j) {
      out[i + j] = inverse == 0 ? T{0} : static_cast<T>(rounded[j]);
      sum += out[i + j];
    }
  }
  for (; i < k; ++i) {
    float rounded[kLanes];
    Store(rounded, Round(Set(x[i]) * Set(inverse)));
    out[i] = inverse == 0 ? T{0} : static_cast<T>(rounded[0]);
    sum += out[i];
  }
#endif
  for (; i % group != 0; ++i) out[i] = 0;
  return sum;
}

template <typename T, int kGroup>
void Quantise(const QuantiseArgs& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const float* x = a.x + row * a.x_row_stride;
    auto* out =
        reinterpret_cast<T*>(static_cast<char*>(a.out) + row * a.out_row_bytes);
    float inverse = 0;
    a.scales[row] = ScaleOf(x, a.k, &inverse);
    a.sums[row] = QuantiseRow(x, a.k, inverse, kGroup, out);
  }
  ClearUpperHalves();
}

// kFlip: the numbers become 0..255.
template <int kGroup, int kFlip>
void Pack(const int8_t* w, int64_t row_stride, int64_t n, int64_t k,
          void* dst) {
  auto* out = static_cast<uint8_t*>(dst);
  for (int64_t panel = 0; panel < n; panel += kPanelCols) {
    for (int64_t i = 0; i < k; i += kGroup) {
      for (int64_t col = panel; col < panel + kPanelCols; ++col) {
        for (int64_t j = i; j < i + kGroup; ++j) {
          const int number = col < n && j < k ? w[col * row_stride + j] : 0;
          *out++ = static_cast<uint8_t>(number ^ kFlip);
        }
      }
    }
  }
}

template <bool kHasFours, int kRows, int kVectors, bool kMasked>
MICA_INLINE void NumberTile(const Int8Args& g, const char* x, const int8_t* w,
                            int64_t row, int64_t col, Vm mask) {
  constexpr int kGroup = kHasFours ? 4 : 2;
  Vn acc[kRows][kVectors];
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    MICA_UNROLL
    for (int j = 0; j < kVectors; ++j) acc[i][j] = ZeroNumbers();
  }
  // As in a product of floats: a base for every three rows.
  constexpr int kBases = (kRows + 2) / 3;
  const int64_t step = g.x_row_bytes;
  const char* bases[kBases];
  MICA_UNROLL
  for (int i = 0; i < kBases; ++i) bases[i] = x + 3 * i * step;
  const int64_t groups = (g.k + kGroup - 1) / kGroup;
  for (int64_t k = 0; k < groups; ++k) {
#if defined(__AVX512F__)
    if constexpr (kHasFours) {
      Vn columns[kVectors];
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        columns[j] = LoadNumbers(w + j * kLanes * kGroup);
      }
      MICA_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const auto* p =
            reinterpret_cast<const int8_t*>(bases[i / 3] + i % 3 * step);
        MICA_UNROLL
        for (int j = 0; j < kVectors; ++j) AddFours(p, columns[j], acc[i][j]);
      }
      __builtin_prefetch(w + 12 * kPanelCols * kGroup, 0, 3);
      __builtin_prefetch(w + 12 * kPanelCols * kGroup + 64, 0, 3);
    }
#endif
    if constexpr (!kHasFours) {
      MICA_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const auto* p =
            reinterpret_cast<const int16_t*>(bases[i / 3] + i % 3 * step);
        MICA_UNROLL
        for (int j = 0; j < kVectors; ++j) {
          AddPairs(p, w + j * kLanes * kGroup, acc[i][j]);
        }
      }
    }
    MICA_UNROLL
    for (int i = 0; i < kBases; ++i) bases[i] += 4;
    w += kPanelCols * kGroup;
  }
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    float* out = g.c + (row + i) * g.c_row_stride + col;
    const Vf scale = Set(g.x_scales[row + i]);
    MICA_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const bool masked = kMasked && j == kVectors - 1;
      Vn sum = acc[i][j];
#if defined(__AVX512F__)
      if constexpr (kHasFours) {
        sum = SubtractNumbers(sum, SetNumbers(128 * g.x_sums[row + i]));
      }
#endif
      const float* ws = g.w_scales + col + j * kLanes;
      Vf y = ToFloats(sum) * (scale * (masked ? Load(ws, mask) : Load(ws)));
      if (g.bias != nullptr) {
        const float* bias = g.bias + col + j * kLanes;
        y = y + (masked ? Load(bias, mask) : Load(bias));
      }
      if (masked) {
        Store(out + j * kLanes, y, mask);
      } else {
        Store(out + j * kLanes, y);
      }
    }
  }
}

template <bool kHasFours, int kRows>
void NumberRows(const Int8Args& g, const char* x, const int8_t* w, int64_t row,
                int64_t col) {
  const int64_t cols = g.n - col < kPanelCols ? g.n - col : kPanelCols;
  if (cols == kPanelCols) {
    NumberTile<kHasFours, kRows, 2, false>(g, x, w, row, col,
                                           FirstLanes(kLanes));
  } else if (cols > kLanes) {
    NumberTile<kHasFours, kRows, 2, true>(g, x, w, row, col,
                                          FirstLanes(cols - kLanes));
  } else {
    NumberTile<kHasFours, kRows, 1, true>(g, x, w, row, col, FirstLanes(cols));
  }
}

using NumberRowsFn = void (*)(const Int8Args&, const char*, const int8_t*,
                              int64_t, int64_t);

struct NumberTable {
  NumberRowsFn rows[kTileRows + 1] = {};
};

template <bool kHasFours, int kRows>
constexpr void FillNumbers(NumberTable& table) {
  table.rows[kRows] = NumberRows<kHasFours, kRows>;
  if constexpr (kRows > 1) FillNumbers<kHasFours, kRows - 1>(table);
}

template <bool kHasFours>
constexpr NumberTable MakeNumbers() {
  NumberTable table;
  FillNumbers<kHasFours, kTileRows>(table);
  return table;
}

template <bool kHasFours>
constexpr NumberTable kNumberTiles = MakeNumbers<kHasFours>();

template <bool kHasFours>
void NumberGemm(const Int8Args& g) {
  constexpr int64_t kGroup = kHasFours ? 4 : 2;
  const int64_t panel_bytes = (g.k + kGroup - 1) / kGroup * kGroup * kPanelCols;
  // Tiles of equal height, rather than a thin last one.
  const int64_t tiles = (g.m + kTileRows - 1) / kTileRows;
  for (int64_t col = 0; col < g.n; col += kPanelCols) {
    const int8_t* w =
        static_cast<const int8_t*>(g.w) + col / kPanelCols * panel_bytes;
    int64_t row = 0;
    for (int64_t t = 0; t < tiles; ++t) {
      const int height = static_cast<int>((g.m + t) / tiles);
      const char* x = static_cast<const char*>(g.x) + row * g.x_row_bytes;
      kNumberTiles<kHasFours>.rows[height](g, x, w, row, col);
      row += height;
    }
  }
  ClearUpperHalves();
}

template <bool kHasFours, typename T>
void Choose(Int8Loops& loops) {
  constexpr int kGroup = kHasFours ? 4 : 2;
  loops.group = kGroup;
  loops.x_bytes = sizeof(T);
  loops.quantise = Quantise<T, kGroup>;
  loops.pack = Pack < kGroup, kHasFours ? 0x80 : 0 > ;
  loops.gemm = NumberGemm<kHasFours>;
}

}  // namespace

// Declared in few_bits_table.cc.
void FillInt8Gemm(FewBitsTable& table) {
  Choose<false, int16_t>(table.int8_by_pairs);
#if defined(__AVX512F__)
  // The level doesn't have it, most processors of the level do.
  if (__builtin_cpu_supports("avx512vnni")) {
    Choose<true, int8_t>(table.int8);
    return;
  }
#endif
  table.int8 = table.int8_by_pairs;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
