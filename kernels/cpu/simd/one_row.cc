// One row times a matrix whose rows are contiguous.

#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Rows of the matrix that are read beside each other, each a stream through
// memory, and vectors of the result whose sums don't wait for each other.
constexpr int kRows = 8;
constexpr int kVectors = 4;

// Adds the product with kCount rows to n columns.
template <int kCount>
void AddRows(const float* x, const float* b, int64_t stride, int64_t n,
             float* out) {
  constexpr int64_t kCols = kVectors * kLanes;
  int64_t i = 0;
  for (; i + kCols <= n; i += kCols) {
    Vf sum[kVectors];
    MICA_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[v] = Load(out + i + v * kLanes);
    MICA_UNROLL
    for (int r = 0; r < kCount; ++r) {
      const Vf factor = Set(x[r]);
      MICA_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sum[v] = Fma(factor, Load(b + r * stride + i + v * kLanes), sum[v]);
      }
    }
    MICA_UNROLL
    for (int v = 0; v < kVectors; ++v) Store(out + i + v * kLanes, sum[v]);
  }
  for (; i < n; i += kLanes) {
    const Vm mask = FirstLanes(n - i < kLanes ? n - i : kLanes);
    Vf sum = Load(out + i, mask);
    MICA_UNROLL
    for (int r = 0; r < kCount; ++r) {
      sum = Fma(Set(x[r]), Load(b + r * stride + i, mask), sum);
    }
    Store(out + i, sum, mask);
  }
}

void AddOneRow(const float* x, const float* b, int64_t b_row_stride, int64_t k,
               int64_t n, float* out) {
  int64_t r = 0;
  for (; r + kRows <= k; r += kRows) {
    AddRows<kRows>(x + r, b + r * b_row_stride, b_row_stride, n, out);
  }
  for (; r < k; ++r) {
    AddRows<1>(x + r, b + r * b_row_stride, b_row_stride, n, out);
  }
}

}  // namespace

void FillOneRow(SimdTable& table) { table.add_one_row = AddOneRow; }

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
