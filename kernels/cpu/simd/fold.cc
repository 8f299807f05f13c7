#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

// Tiles of numbers are folded to one for each row or for each column, and these
// into totals, which are doubles and whole numbers of 64 bits. Plain loops over
// lanes, left to the compiler's vectoriser: a row is lanes, too, which become
// one at its end.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Columns that are folded together, so long that the processor fetches ahead,
// and rows between two visits to the totals.
constexpr int kWidth = 512;
constexpr int64_t kBlockRows = 128;
// The same of moments, whose tiles are read twice.
constexpr int64_t kMomentRows = 32;
// Elements of a row between two visits to the totals.
constexpr int64_t kBlock = 2048;

// What is folded: T the element, Acc what a lane holds, Total what a total is.
// kJoins: two totals, or a total and a lane, become one by Join().
template <typename T>
struct SumOp {
  using Acc = T;
  using Total = double;
  static constexpr Acc kStart = 0;
  static MICA_INLINE Acc Do(Acc a, T x, T) { return a + x; }
  static MICA_INLINE Total Join(Total a, Total b) { return a + b; }
};
template <typename T>
struct SumAbsOp : SumOp<T> {
  static MICA_INLINE T Do(T a, T x, T) { return a + std::abs(x); }
};
template <typename T>
struct SumSquaresOp : SumOp<T> {
  static MICA_INLINE T Do(T a, T x, T) { return a + x * x; }
};
template <typename T>
struct ProductOp {
  using Acc = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  using Total = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  static constexpr Acc kStart = 1;
  static MICA_INLINE Acc Do(Acc a, T x, T) { return a * static_cast<Acc>(x); }
  static MICA_INLINE Total Join(Total a, Total b) { return a * b; }
};
// A nan on either side wins.
template <typename T>
struct LargestOp {
  using Acc = T;
  using Total = double;
  static constexpr Acc kStart = -INFINITY;
  static MICA_INLINE Acc Do(Acc a, T x, T) {
    return (a > x) | (a != a) ? a : x;
  }
  static MICA_INLINE Total Join(Total a, Total b) {
    return (a > b) | (a != a) ? a : b;
  }
};
template <typename T>
struct SmallestOp {
  using Acc = T;
  using Total = double;
  static constexpr Acc kStart = INFINITY;
  static MICA_INLINE Acc Do(Acc a, T x, T) {
    return (a < x) | (a != a) ? a : x;
  }
  static MICA_INLINE Total Join(Total a, Total b) {
    return (a < b) | (a != a) ? a : b;
  }
};
template <typename T>
struct LargestAbsOp : LargestOp<T> {
  static MICA_INLINE T Do(T a, T x, T) {
    const T size = std::abs(x);  // Of -0 too.
    return (a > size) | (a != a) ? a : size;
  }
};
template <typename T>
struct SmallestAbsOp : SmallestOp<T> {
  static MICA_INLINE T Do(T a, T x, T) {
    const T size = std::abs(x);  // Of -0 too.
    return (a < size) | (a != a) ? a : size;
  }
};
// Of the bits of any type: those of `mask` make an element unequal to 0. No
// lane meets more than kBlockRows or kBlock / 32 elements between two visits.
template <typename T>
struct CountOp {
  using Acc = T;
  using Total = uint64_t;
  static constexpr Acc kStart = 0;
  static MICA_INLINE Acc Do(Acc a, T x, T mask) {
    return static_cast<T>(a + ((x & mask) != 0 ? 1 : 0));
  }
  static MICA_INLINE Total Join(Total a, Total b) { return a + b; }
};

// One total of n <= kBlock elements, kLanesOfRow at a time.
template <typename T, template <typename> class Op, int kLanesOfRow>
MICA_INLINE typename Op<T>::Total RowTotal(const T* x, int64_t n, T mask) {
  using Acc = typename Op<T>::Acc;
  using Total = typename Op<T>::Total;
  Acc acc[kLanesOfRow];
  for (int j = 0; j < kLanesOfRow; ++j) acc[j] = Op<T>::kStart;
  int64_t i = 0;
  for (; i + kLanesOfRow <= n; i += kLanesOfRow) {
    for (int j = 0; j < kLanesOfRow; ++j) {
      acc[j] = Op<T>::Do(acc[j], x[i + j], mask);
    }
  }
  const int rest = static_cast<int>(n - i);
  for (int j = 0; j < rest; ++j) acc[j] = Op<T>::Do(acc[j], x[i + j], mask);
  Total totals[kLanesOfRow];
  for (int j = 0; j < kLanesOfRow; ++j) totals[j] = acc[j];
  for (int half = kLanesOfRow / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) {
      totals[j] = Op<T>::Join(totals[j], totals[j + half]);
    }
  }
  return totals[0];
}

template <typename T, template <typename> class Op>
MICA_INLINE typename Op<T>::Total RowTotal(const T* x, int64_t n, T mask) {
  constexpr int kMost = sizeof(T) <= 4 ? 64 : 32;
  constexpr int kFew = 8;
  if (n < 2 * kMost) return RowTotal<T, Op, kFew>(x, n, mask);
  return RowTotal<T, Op, kMost>(x, n, mask);
}

template <typename T, template <typename> class Op>
void FoldRows(const FoldArgs& args) {
  using Total = typename Op<T>::Total;
  const T* x = static_cast<const T*>(args.x);
  Total* totals = static_cast<Total*>(args.totals);
  const T mask = static_cast<T>(args.mask);
  for (int64_t r = 0; r < args.rows; ++r, x += args.step) {
    Total total =
        args.done == 0 ? static_cast<Total>(Op<T>::kStart) : totals[r];
    for (int64_t i = 0; i < args.n; i += kBlock) {
      const int64_t n = args.n - i < kBlock ? args.n - i : kBlock;
      total = Op<T>::Join(total, RowTotal<T, Op>(x + i, n, mask));
    }
    totals[r] = total;
  }
}

// Rows of `width` columns into acc.
template <typename T, template <typename> class Op>
MICA_INLINE void FoldTile(const T* x, int64_t step, int64_t rows, int width,
                          T mask, typename Op<T>::Acc* acc) {
  for (int64_t r = 0; r < rows; ++r, x += step) {
    MICA_IVDEP
    for (int j = 0; j < width; ++j) acc[j] = Op<T>::Do(acc[j], x[j], mask);
  }
}

template <typename T, template <typename> class Op>
void FoldColumns(const FoldArgs& args) {
  using Acc = typename Op<T>::Acc;
  using Total = typename Op<T>::Total;
  const T* x = static_cast<const T*>(args.x);
  Total* totals = static_cast<Total*>(args.totals);
  const T mask = static_cast<T>(args.mask);
  if (args.done == 0) {
    for (int64_t c = 0; c < args.n; ++c) totals[c] = Op<T>::kStart;
  }
  Acc acc[kWidth];
  for (int64_t r = 0; r < args.rows; r += kBlockRows) {
    const int64_t rows =
        args.rows - r < kBlockRows ? args.rows - r : kBlockRows;
    for (int64_t c = 0; c < args.n; c += kWidth) {
      const int width =
          static_cast<int>(args.n - c < kWidth ? args.n - c : kWidth);
      for (int j = 0; j < width; ++j) acc[j] = Op<T>::kStart;
      FoldTile<T, Op>(x + r * args.step + c, args.step, rows, width, mask, acc);
      for (int j = 0; j < width; ++j) {
        totals[c + j] = Op<T>::Join(totals[c + j], static_cast<Total>(acc[j]));
      }
    }
  }
}

template <int kLanesOfRow>
MICA_INLINE double SumAll(double* lanes) {
  for (int half = kLanesOfRow / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

// The squares of n elements' distances to their mean, which becomes `mean`.
// Twice over the elements: a single pass would lose the digits that they have
// in common. The first mean is rounded; the distances tell by how much.
template <typename T, int kLanesOfRow>
MICA_INLINE double Moments(const T* x, int64_t n, double& mean) {
  const double count = static_cast<double>(n);
  const T middle =
      static_cast<T>(RowTotal<T, SumOp, kLanesOfRow>(x, n, T{}) / count);
  T acc[kLanesOfRow] = {}, rest[kLanesOfRow] = {};
  int64_t i = 0;
  for (; i + kLanesOfRow <= n; i += kLanesOfRow) {
    for (int j = 0; j < kLanesOfRow; ++j) {
      const T apart = x[i + j] - middle;
      rest[j] += apart;
      acc[j] += apart * apart;
    }
  }
  for (int j = 0; j < static_cast<int>(n - i); ++j) {
    const T apart = x[i + j] - middle;
    rest[j] += apart;
    acc[j] += apart * apart;
  }
  double squares[kLanesOfRow], rests[kLanesOfRow];
  for (int j = 0; j < kLanesOfRow; ++j) {
    squares[j] = acc[j];
    rests[j] = rest[j];
  }
  const double moved = SumAll<kLanesOfRow>(rests) / count;
  mean = middle + moved;
  return SumAll<kLanesOfRow>(squares) - moved * moved * count;
}

// `count` elements with that mean and those squares join `done` others.
MICA_INLINE void JoinMoments(double done, double count, double mean,
                             double squares, double& all_mean,
                             double& all_squares) {
  const double apart = mean - all_mean, share = count / (done + count);
  all_mean += apart * share;
  all_squares += squares + apart * apart * done * share;
}

template <typename T>
void MomentRows(const FoldArgs& args) {
  const T* x = static_cast<const T*>(args.x);
  double* squares = static_cast<double*>(args.totals);
  double* means = static_cast<double*>(args.means);
  for (int64_t r = 0; r < args.rows; ++r, x += args.step) {
    for (int64_t i = 0; i < args.n; i += kBlock) {
      const int64_t n = args.n - i < kBlock ? args.n - i : kBlock;
      double mean = 0;
      const double own = n < 64 ? Moments<T, 8>(x + i, n, mean)
                                : Moments<T, 32>(x + i, n, mean);
      if (args.done + i == 0) {
        means[r] = mean;
        squares[r] = own;
      } else {
        JoinMoments(static_cast<double>(args.done + i), static_cast<double>(n),
                    mean, own, means[r], squares[r]);
      }
    }
  }
}

template <typename T>
void MomentTile(const T* x, int64_t step, int64_t rows, int width, double done,
                double* means, double* squares) {
  T middle[kWidth], acc[kWidth], rest[kWidth];
  for (int j = 0; j < width; ++j) middle[j] = acc[j] = rest[j] = 0;
  FoldTile<T, SumOp>(x, step, rows, width, T{}, middle);
  const double count = static_cast<double>(rows);
  const T share = static_cast<T>(1 / count);
  for (int j = 0; j < width; ++j) middle[j] *= share;
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * step;
    MICA_IVDEP
    for (int j = 0; j < width; ++j) {
      const T apart = row[j] - middle[j];
      rest[j] += apart;
      acc[j] += apart * apart;
    }
  }
  if (done == 0) {
    for (int j = 0; j < width; ++j) means[j] = squares[j] = 0;
  }
  MICA_IVDEP
  for (int j = 0; j < width; ++j) {
    const double moved = rest[j] / count;
    JoinMoments(done, count, middle[j] + moved, acc[j] - moved * moved * count,
                means[j], squares[j]);
  }
}

template <typename T>
void MomentColumns(const FoldArgs& args) {
  const T* x = static_cast<const T*>(args.x);
  double* squares = static_cast<double*>(args.totals);
  double* means = static_cast<double*>(args.means);
  for (int64_t r = 0; r < args.rows; r += kMomentRows) {
    const int64_t rows =
        args.rows - r < kMomentRows ? args.rows - r : kMomentRows;
    for (int64_t c = 0; c < args.n; c += kWidth) {
      const int width =
          static_cast<int>(args.n - c < kWidth ? args.n - c : kWidth);
      MomentTile<T>(x + r * args.step + c, args.step, rows, width,
                    static_cast<double>(args.done + r), means + c, squares + c);
    }
  }
}

template <typename T, template <typename> class Op>
void Set(SimdTable& table, Fold fold, Elem elem) {
  const int f = static_cast<int>(fold), e = static_cast<int>(elem);
  table.fold_rows[f][e] = FoldRows<T, Op>;
  table.fold_columns[f][e] = FoldColumns<T, Op>;
}

template <typename T>
void SetFloats(SimdTable& table, Elem elem) {
  Set<T, SumOp>(table, Fold::kSum, elem);
  Set<T, SumAbsOp>(table, Fold::kSumAbs, elem);
  Set<T, SumSquaresOp>(table, Fold::kSumSquares, elem);
  Set<T, ProductOp>(table, Fold::kProduct, elem);
  Set<T, LargestOp>(table, Fold::kLargest, elem);
  Set<T, SmallestOp>(table, Fold::kSmallest, elem);
  Set<T, LargestAbsOp>(table, Fold::kLargestAbs, elem);
  Set<T, SmallestAbsOp>(table, Fold::kSmallestAbs, elem);
  const int f = static_cast<int>(Fold::kMoments), e = static_cast<int>(elem);
  table.fold_rows[f][e] = MomentRows<T>;
  table.fold_columns[f][e] = MomentColumns<T>;
}

template <typename T>
void SetCount(SimdTable& table, int log2_bytes) {
  table.count_rows[log2_bytes] = FoldRows<T, CountOp>;
  table.count_columns[log2_bytes] = FoldColumns<T, CountOp>;
}

}  // namespace

void FillFold(SimdTable& table) {
  SetFloats<float>(table, Elem::kF32);
  SetFloats<double>(table, Elem::kF64);
  Set<int64_t, ProductOp>(table, Fold::kProduct, Elem::kI64);
  Set<int32_t, ProductOp>(table, Fold::kProduct, Elem::kI32);
  SetCount<uint8_t>(table, 0);
  SetCount<uint16_t>(table, 1);
  SetCount<uint32_t>(table, 2);
  SetCount<uint64_t>(table, 3);
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
