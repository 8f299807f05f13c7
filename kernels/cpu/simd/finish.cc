#include <cstdint>

#include "kernels/cpu/simd/gemm.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

// What follows a product's sums: bias, activation, residual, on stored rows.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

template <Vf (*kFn)(Vf)>
MICA_INLINE void ApplyRows(float* c, int64_t row_stride, int64_t rows,
                           int64_t n) {
  for (int64_t i = 0; i < rows; ++i) {
    float* row = c + i * row_stride;
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) Store(row + j, kFn(Load(row + j)));
    if (j < n) {
      const Vm m = FirstLanes(n - j);
      Store(row + j, kFn(Load(row + j, m)), m);
    }
  }
}

// row[j] = row[j] + more[j].
MICA_INLINE void AddRow(const float* more, float* row, int64_t n) {
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    Store(row + j, Load(row + j) + Load(more + j));
  }
  if (j < n) {
    const Vm m = FirstLanes(n - j);
    Store(row + j, Load(row + j, m) + Load(more + j, m), m);
  }
}

}  // namespace

void ActivateRows(Activation activation, float* c, int64_t row_stride,
                  int64_t rows, int64_t n) {
  switch (activation) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      return ApplyRows<Relu>(c, row_stride, rows, n);
    case Activation::kGeluErf:
      return ApplyRows<GeluErf>(c, row_stride, rows, n);
    case Activation::kGeluTanh:
      return ApplyRows<GeluTanh>(c, row_stride, rows, n);
    case Activation::kTanh:
      return ApplyRows<Tanh>(c, row_stride, rows, n);
    case Activation::kSigmoid:
      return ApplyRows<Sigmoid>(c, row_stride, rows, n);
    case Activation::kSilu:
      return ApplyRows<Silu>(c, row_stride, rows, n);
    case Activation::kRelu6:
      return ApplyRows<Relu6>(c, row_stride, rows, n);
    case Activation::kHardswish:
      return ApplyRows<Hardswish>(c, row_stride, rows, n);
  }
}

void FinishRows(const FinishArgs& a) {
  if (a.bias != nullptr) {
    for (int64_t i = 0; i < a.rows; ++i) {
      AddRow(a.bias, a.c + i * a.c_row_stride, a.n);
    }
  }
  ActivateRows(a.activation, a.c, a.c_row_stride, a.rows, a.n);
  if (a.residual != nullptr) {
    for (int64_t i = 0; i < a.rows; ++i) {
      AddRow(a.residual + i * a.residual_row_stride, a.c + i * a.c_row_stride,
             a.n);
    }
  }
}

void FillFinish(SimdTable& table) {
  table.activate = ActivateRows;
  table.finish = FinishRows;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
