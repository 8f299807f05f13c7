#ifndef MICA_KERNELS_CPU_SIMD_REDUCE_ROW_H_
#define MICA_KERNELS_CPU_SIMD_REDUCE_ROW_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/simd/vec.h"

// One row of numbers becomes one. Unnamed, as what this folder's other headers
// hold: each source has its own, for the machine it is compiled for.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

template <typename T>
struct SumOp {
  static MICA_INLINE T Do(T a, T b) { return a + b; }
};
// A nan on either side wins.
template <typename T>
struct MaxOp {
  static MICA_INLINE T Do(T a, T b) { return (a > b) | (a != a) ? a : b; }
};
template <typename T>
struct MinOp {
  static MICA_INLINE T Do(T a, T b) { return (a < b) | (a != a) ? a : b; }
};

// Independent accumulators: two vectors of the widest kind, four where each
// step takes several instructions.
template <typename T, template <typename> class Op>
inline constexpr int kAccumulators = (std::is_same_v<Op<T>, SumOp<T>> ? 128
                                                                      : 256) /
                                     sizeof(T);

// The first kFrom of acc into its first kTo, half by half: the compiler knows
// all indices, so they stay in registers.
template <typename T, template <typename> class Op, int kFrom, int kTo>
MICA_INLINE void Fold(T* acc) {
  for (int half = kFrom / 2; half >= kTo; half /= 2) {
    for (int j = 0; j < half; ++j) acc[j] = Op<T>::Do(acc[j], acc[j + half]);
  }
}

// `first` and n elements, one after the other.
template <typename T, template <typename> class Op>
MICA_INLINE T ReduceOn(T first, const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) first = Op<T>::Do(first, x[i]);
  return first;
}

// Reduces 1 <= n elements, kN at a time, then a quarter of that, then one.
template <typename T, template <typename> class Op, int kN>
MICA_INLINE T ReduceBy(const T* x, int64_t n) {
  constexpr int kPart = kN / 4;
  if (n < kPart) return ReduceOn<T, Op>(x[0], x + 1, n - 1);
  T part[kN];
  int64_t i = n < kN ? kPart : kN;
  if (n < kN) {
    for (int j = 0; j < kPart; ++j) part[j] = x[j];
  } else {
    for (int j = 0; j < kN; ++j) part[j] = x[j];
    for (; i + kN <= n; i += kN) {
      for (int j = 0; j < kN; ++j) part[j] = Op<T>::Do(part[j], x[i + j]);
    }
    Fold<T, Op, kN, kPart>(part);
  }
  for (; i + kPart <= n; i += kPart) {
    for (int j = 0; j < kPart; ++j) part[j] = Op<T>::Do(part[j], x[i + j]);
  }
  Fold<T, Op, kPart, 1>(part);
  return ReduceOn<T, Op>(part[0], x + i, n - i);
}

// GCC keeps more than sixteen accumulators in memory, which matters little in a
// long row.
template <typename T, template <typename> class Op>
MICA_INLINE T ReduceSome(const T* x, int64_t n) {
  constexpr int64_t kLong = 1024;
  return n < kLong ? ReduceBy<T, Op, 16>(x, n)
                   : ReduceBy<T, Op, kAccumulators<T, Op>>(x, n);
}

// Largest of a row; a nan may be lost, the exponentials bring it back.
MICA_INLINE float RowMax(const float* x, int64_t n) {
  Vf m = Set(-INFINITY);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) m = Max(m, Load(x + i));
  if (i < n) {
    const Vm tail = FirstLanes(n - i);
    m = Max(m, Select(tail, Load(x + i, tail), Set(-INFINITY)));
  }
  return MaxLanes(m);
}

}  // namespace
}  // namespace mica::cpu::MICA_SIMD_NAMESPACE

#endif  // MICA_KERNELS_CPU_SIMD_REDUCE_ROW_H_
