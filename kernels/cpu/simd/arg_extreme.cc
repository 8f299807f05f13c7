#include <cstdint>
#include <type_traits>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/reduce_row.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

constexpr int kBlock = 32;
constexpr int64_t kShort = 16;  // Elements of a row.

// The first of n <= kBlock elements that IsIt holds for, without a branch for
// each; kBlock if there is none. The index is as wide as the elements, so that
// one mask serves both.
template <typename T, typename IsIt>
MICA_INLINE int64_t FirstInBlock(const T* x, int n, const IsIt& is_it) {
  using Index = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  Index at = kBlock;
  for (int j = 0; j < n; ++j) {
    const Index here = is_it(x[j]) ? static_cast<Index>(j) : Index{kBlock};
    at = here < at ? here : at;
  }
  return at;
}

// The first of n elements that IsIt holds for, which there is one of.
template <typename T, typename IsIt>
MICA_INLINE int64_t First(const T* x, int64_t n, const IsIt& is_it) {
  int64_t i = 0;
  for (; i + kBlock < n; i += kBlock) {
    const int64_t at = FirstInBlock(x + i, kBlock, is_it);
    if (at < kBlock) return i + at;
  }
  return i + FirstInBlock(x + i, static_cast<int>(n - i), is_it);
}

// Whether `b` takes the place of `a`, which stands before it.
template <typename T, template <typename> class Op>
MICA_INLINE bool Replaces(T b, T a) {
  const bool is_further = std::is_same_v<Op<T>, MaxOp<T>> ? b > a : b < a;
  return is_further | ((b != b) & (a == a));
}

// Of a short row, in one pass and without a branch for each element.
template <typename T, template <typename> class Op>
MICA_INLINE int64_t ArgOfShort(const T* row, int64_t n) {
  T extreme = row[0];
  int64_t at = 0;
  for (int64_t i = 1; i < n; ++i) {
    // A nan stays: nothing is further.
    const bool replaces = Replaces<T, Op>(row[i], extreme);
    extreme = replaces ? row[i] : extreme;
    at = replaces ? i : at;
  }
  return at;
}

template <typename T, template <typename> class Op>
MICA_INLINE int64_t ArgOfLong(const T* row, int64_t n) {
  const T extreme = ReduceSome<T, Op>(row, n);
  if (extreme == extreme) {
    return First(row, n, [extreme](T e) { return e == extreme; });
  }
  return First(row, n, [](T e) { return e != e; });
}

template <typename T, template <typename> class Op>
void ArgExtreme(const void* x, int64_t rows, int64_t n, void* values,
                int64_t* indices) {
  const T* row = static_cast<const T*>(x);
  T* extremes = static_cast<T*>(values);
  for (int64_t r = 0; r < rows; ++r, row += n) {
    const int64_t at =
        n <= kShort ? ArgOfShort<T, Op>(row, n) : ArgOfLong<T, Op>(row, n);
    if (extremes != nullptr) extremes[r] = row[at];
    if (indices != nullptr) indices[r] = at;
  }
}

// Rows of a tile whose places are counted in numbers as wide as its elements.
constexpr int64_t kTileRows = 1 << 20;
constexpr int kTileColumns = 256;

template <typename T, template <typename> class Op, typename Index>
MICA_INLINE void ArgTile(const T* x, int64_t step, int64_t rows, int width,
                         T* extremes, Index* at) {
  for (int64_t r = 1; r < rows; ++r) {
    const T* row = x + r * step;
    const Index here = static_cast<Index>(r);
    MICA_IVDEP
    for (int j = 0; j < width; ++j) {
      const bool replaces = Replaces<T, Op>(row[j], extremes[j]);
      extremes[j] = replaces ? row[j] : extremes[j];
      at[j] = replaces ? here : at[j];
    }
  }
}

template <typename T, template <typename> class Op>
void ArgColumns(const void* x, int64_t step, int64_t rows, int64_t n,
                int64_t first_row, void* values, int64_t* indices) {
  using Index = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  T* best = static_cast<T*>(values);
  T extremes[kTileColumns];
  Index at[kTileColumns];
  for (int64_t begin = 0; begin < rows; begin += kTileRows) {
    const int64_t count = rows - begin < kTileRows ? rows - begin : kTileRows;
    const int64_t before = first_row + begin;
    for (int64_t c = 0; c < n; c += kTileColumns) {
      const int width =
          static_cast<int>(n - c < kTileColumns ? n - c : kTileColumns);
      const T* tile = static_cast<const T*>(x) + begin * step + c;
      for (int j = 0; j < width; ++j) {
        extremes[j] = tile[j];
        at[j] = 0;
      }
      ArgTile<T, Op>(tile, step, count, width, extremes, at);
      for (int j = 0; j < width; ++j) {
        if (before > 0 && !Replaces<T, Op>(extremes[j], best[c + j])) continue;
        best[c + j] = extremes[j];
        indices[c + j] = before + at[j];
      }
    }
  }
}

template <typename T>
void SetBoth(SimdTable& table, Elem elem) {
  const int e = static_cast<int>(elem);
  table.arg_extreme[static_cast<int>(Reduction::kMax)][e] =
      ArgExtreme<T, MaxOp>;
  table.arg_extreme[static_cast<int>(Reduction::kMin)][e] =
      ArgExtreme<T, MinOp>;
  table.arg_columns[static_cast<int>(Reduction::kMax)][e] =
      ArgColumns<T, MaxOp>;
  table.arg_columns[static_cast<int>(Reduction::kMin)][e] =
      ArgColumns<T, MinOp>;
}

}  // namespace

void FillArgExtreme(SimdTable& table) {
  SetBoth<float>(table, Elem::kF32);
  SetBoth<double>(table, Elem::kF64);
  SetBoth<int64_t>(table, Elem::kI64);
  SetBoth<int32_t>(table, Elem::kI32);
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
