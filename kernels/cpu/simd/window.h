// What loops over windows of channels-last images share.

#ifndef MICA_KERNELS_CPU_SIMD_WINDOW_H_
#define MICA_KERNELS_CPU_SIMD_WINDOW_H_

#include <cstdint>

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/vec.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {

MICA_INLINE int64_t Min64(int64_t a, int64_t b) { return a < b ? a : b; }
MICA_INLINE int64_t Max64(int64_t a, int64_t b) { return a > b ? a : b; }
MICA_INLINE int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Taps begin..end of a window whose first tap is at `first` that lie in
// 0..size-1.
struct TapRange {
  int64_t begin, end;
};

MICA_INLINE TapRange TapsInside(int64_t first, int64_t dilation, int64_t taps,
                                int64_t size) {
  const int64_t begin = first < 0 ? CeilDiv(-first, dilation) : 0;
  const int64_t end = first >= size ? 0 : CeilDiv(size - first, dilation);
  return {Min64(begin, taps), Max64(Min64(end, taps), Min64(begin, taps))};
}

// The activations that a register takes; IsLate() tells of the others.
MICA_INLINE Vf Finish(Vf y, Activation activation) {
  if (activation == Activation::kRelu) return Relu(y);
  if (activation == Activation::kRelu6) return Relu6(y);
  return y;
}

MICA_INLINE bool IsLate(Activation activation) {
  return activation != Activation::kNone && activation != Activation::kRelu &&
         activation != Activation::kRelu6;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE

#endif  // MICA_KERNELS_CPU_SIMD_WINDOW_H_
