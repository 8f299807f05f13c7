#ifndef MICA_KERNELS_CPU_MATRIX_VIEW_H_
#define MICA_KERNELS_CPU_MATRIX_VIEW_H_

#include <cstdint>
#include <optional>

#include "framework/tensor/tensor_type.h"

namespace mica::cpu {

// A tensor as a product sees it; strides are in elements.
struct MatrixView {
  int64_t batch = 1, rows = 0, cols = 0;
  int64_t batch_stride = 0, row_stride = 0, col_stride = 0;
};

// The last two dims as a matrix, one before them as the batch. A broadcast
// dimension has stride 0.
MatrixView ViewOf(const TensorType& type);

// All dims but the last as rows, if they lie at one distance.
std::optional<MatrixView> Flatten(const TensorType& type);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_MATRIX_VIEW_H_
