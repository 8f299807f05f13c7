#include "kernels/cpu/matrix_view.h"

namespace mica::cpu {

MatrixView ViewOf(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  const int rank = type.rank();
  MatrixView view{.rows = type.dims[rank - 2],
                  .cols = type.dims[rank - 1],
                  .row_stride = strides[rank - 2],
                  .col_stride = strides[rank - 1]};
  if (rank == 3) {
    view.batch = type.dims[0];
    view.batch_stride = type.dims[0] == 1 ? 0 : strides[0];
  }
  return view;
}

std::optional<MatrixView> Flatten(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  const int last = type.rank() - 1;
  MatrixView view{
      .rows = 1, .cols = type.dims[last], .col_stride = strides[last]};
  bool has_row = false;
  for (int i = last - 1; i >= 0; --i) {
    if (type.dims[i] == 1) continue;
    if (!has_row) {
      view.row_stride = strides[i];
      has_row = true;
    } else if (strides[i] != view.rows * view.row_stride) {
      return std::nullopt;
    }
    view.rows *= type.dims[i];
  }
  if (!has_row) view.row_stride = view.cols;
  return view;
}

}  // namespace mica::cpu
