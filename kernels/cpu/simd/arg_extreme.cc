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

template <typename T>
void SetBoth(SimdTable& table, Elem elem) {
  const int e = static_cast<int>(elem);
  table.arg_extreme[static_cast<int>(Reduction::kMax)][e] =
      ArgExtreme<T, MaxOp>;
  table.arg_extreme[static_cast<int>(Reduction::kMin)][e] =
      ArgExtreme<T, MinOp>;
}

}  // namespace

void FillArgExtreme(SimdTable& table) {
  SetBoth<float>(table, Elem::kF32);
  SetBoth<double>(table, Elem::kF64);
  SetBoth<int64_t>(table, Elem::kI64);
  SetBoth<int32_t>(table, Elem::kI32);
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
