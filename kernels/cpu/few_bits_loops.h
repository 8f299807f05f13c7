#ifndef MICA_KERNELS_CPU_FEW_BITS_LOOPS_H_
#define MICA_KERNELS_CPU_FEW_BITS_LOOPS_H_

#include <cstdint>

// What the loops of products with whole-number weights take. No framework
// types; strides are in elements.

namespace mica::cpu {

// Rows of float32 to whole numbers in -127..127, for Int8Args.
struct QuantiseArgs {
  const float* x = nullptr;  // Unit stride along k.
  int64_t x_row_stride = 0;
  int64_t rows = 0, k = 0;
  void* out = nullptr;
  int64_t out_row_bytes = 0;  // Int8Loops::row_bytes of k.
  float* scales = nullptr;    // [rows]: x is about scale times the number.
  int32_t* sums = nullptr;    // [rows]: of the numbers.
};

// c[m,n] = xs[m] ws[n] (sum over k of x[m,k] w[n,k]) + bias[n], x and w whole
// numbers, summed without rounding.
struct Int8Args {
  const void* x = nullptr;  // As `quantise` wrote it.
  int64_t x_row_bytes = 0;
  const float* x_scales = nullptr;
  const int32_t* x_sums = nullptr;
  const void* w = nullptr;  // As `pack` wrote it; from a panel's first column.
  const float* w_scales = nullptr;  // [n]
  const float* bias = nullptr;      // [n] or null.
  float* c = nullptr;               // Unit stride along n.
  int64_t c_row_stride = 0;
  int64_t m = 0, n = 0, k = 0;
};

// c[m,n] = ws[n] (sum over k of x[m,k] w[n,k]) + bias[n], x float32.
struct FloatByInt8Args {
  const float* x = nullptr;  // Unit stride along k.
  int64_t x_row_stride = 0;
  const int8_t* w = nullptr;        // As `pack_rows` wrote it, from a panel on.
  const float* w_scales = nullptr;  // [n]
  const float* bias = nullptr;      // [n] or null.
  float* c = nullptr;               // Unit stride along n.
  int64_t c_row_stride = 0;
  int64_t m = 0, n = 0, k = 0;
};

// Of weights w[n, k] of signed bytes. A panel is so many columns of c, as
// SimdTable::gemm_cols.
struct Int8Loops {
  // Numbers of k that lie next to each other in a column of a packed panel, and
  // bytes of one in a row of x.
  int group = 1;
  int x_bytes = 1;
  // Above so many numbers a sum may not fit 32 bits.
  static constexpr int64_t kMostTerms = 1 << 16;
  void (*quantise)(const QuantiseArgs& args) = nullptr;
  // Panel after panel, each panel_bytes(k); columns past n are 0.
  void (*pack)(const int8_t* w, int64_t row_stride, int64_t n, int64_t k,
               void* dst) = nullptr;
  void (*gemm)(const Int8Args& args) = nullptr;
  // Panel after panel, each [k][columns].
  void (*pack_rows)(const int8_t* w, int64_t row_stride, int64_t n, int64_t k,
                    int8_t* dst) = nullptr;
  // For a few rows.
  void (*rows)(const FloatByInt8Args& args) = nullptr;
  // dst[k][columns] = a packed panel's numbers times their scales, of which
  // there are `n`.
  void (*widen)(const int8_t* panel, const float* scales, int64_t n, int64_t k,
                float* dst) = nullptr;

  int64_t padded(int64_t k) const { return (k + group - 1) / group * group; }
  int64_t panel_bytes(int64_t k, int cols) const { return padded(k) * cols; }
  // A line more, so that rows don't share cache sets.
  int64_t row_bytes(int64_t k) const {
    return (padded(k) * x_bytes + 63) / 64 * 64 + 64;
  }
};

// c[m,n] = sum over k of x[m,k] (scales[g,n] w[n,k] + offsets[g,n]) + bias[n],
// w in 0..15, g = k / group.
struct FloatByInt4Args {
  // Unit stride along k; rows have zeros up to a whole word of weights.
  const float* x = nullptr;
  int64_t x_row_stride = 0;
  const float* x_sums = nullptr;  // [m][num_parts]: of each group of x.
  const uint32_t* w = nullptr;    // As `pack` wrote it, from a panel on.
  // [num_parts][part_stride], from the same panel's first column on; whole
  // panels.
  const float* scales = nullptr;
  const float* offsets = nullptr;
  int64_t part_stride = 0, num_parts = 0;
  int64_t group = 0;            // A multiple of kOfWord.
  const float* bias = nullptr;  // [n] or null.
  float* c = nullptr;           // Unit stride along n.
  int64_t c_row_stride = 0;
  int64_t m = 0, n = 0, k = 0;
};

// Of weights w[n, k] of 4 bits, two a byte, the first in the low bits.
struct Int4Loops {
  static constexpr int64_t kOfWord = 8;  // Weights in a word.
  // Panel after panel, each [k / kOfWord][columns] words.
  void (*pack)(const uint8_t* w, int64_t row_stride, int64_t n, int64_t k,
               uint32_t* dst) = nullptr;
  // For a few rows.
  void (*rows)(const FloatByInt4Args& args) = nullptr;
  // dst[k_end - k_begin][columns] of a panel as floats; k_begin is a multiple
  // of kOfWord.
  void (*widen)(const FloatByInt4Args& args, int64_t panel, int64_t k_begin,
                int64_t k_end, float* dst) = nullptr;

  static int64_t panel_words(int64_t k, int cols) {
    return (k + kOfWord - 1) / kOfWord * cols;
  }
};

// The loops of one instruction set; panels have SimdTable::gemm_cols columns of
// the same.
struct FewBitsTable {
  Int8Loops int8;
  Int8Loops int8_by_pairs;  // As processors without VNNI have it.
  Int4Loops int4;
};

struct SimdTable;
// Of the instruction set of Simd(), and of a table of those.
const FewBitsTable& FewBits();
const FewBitsTable& FewBitsOf(const SimdTable& table);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_FEW_BITS_LOOPS_H_
