#include "kernels/cuda/matrices.h"

#include <algorithm>
#include <utility>

namespace mica::cuda {
namespace {

// An array's last two axes and the one before.
struct Matrix {
  int64_t rows, columns, row_stride, column_stride, batch_stride;
};

Matrix MatrixOf(const Lane& lane) {
  const int r = lane.rank();
  return {lane.dims[r - 2], lane.dims[r - 1], lane.strides[r - 2],
          lane.strides[r - 1], r == 3 ? lane.strides[0] : 0};
}

Matrix Turned(Matrix m) {
  std::swap(m.rows, m.columns);
  std::swap(m.row_stride, m.column_stride);
  return m;
}

// As cuBLASLt reads it: by columns, or transposed.
std::optional<BlasMatrix> Describe(const Matrix& m) {
  // A stride along an axis of one element is of no matter.
  const bool is_by_columns = m.row_stride == 1 || m.rows == 1;
  const bool is_by_rows = m.column_stride == 1 || m.columns == 1;
  if (is_by_columns && (m.column_stride >= m.rows || m.columns == 1)) {
    return BlasMatrix{.stride = m.columns == 1 ? std::max<int64_t>(m.rows, 1)
                                               : m.column_stride,
                      .batch_stride = m.batch_stride};
  }
  if (is_by_rows && (m.row_stride >= m.columns || m.rows == 1)) {
    return BlasMatrix{
        .stride = m.rows == 1 ? std::max<int64_t>(m.columns, 1) : m.row_stride,
        .is_transposed = true,
        .batch_stride = m.batch_stride};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> SetMatrices(const Lane& a_lane, const Lane& b_lane,
                                       const Lane& out_lane,
                                       ProductCall& call) {
  Matrix a = MatrixOf(a_lane), b = MatrixOf(b_lane), out = MatrixOf(out_lane);
  call.a = {.arg = a_lane.arg};
  call.b = {.arg = b_lane.arg};
  call.out = {.arg = out_lane.arg};
  call.is_turned = out.column_stride == 1 || out.columns == 1;
  if (call.is_turned) {
    std::swap(a, b);
    std::swap(call.a, call.b);
    a = Turned(a);
    b = Turned(b);
    out = Turned(out);
  }
  const auto as = Describe(a), bs = Describe(b), outs = Describe(out);
  if (!as || !bs) return "an operand lies neither by rows nor by columns";
  if (!outs || outs->is_transposed) {
    return "the result lies neither by rows nor by columns";
  }
  BlasProduct& p = call.product;
  p.dtype = a_lane.dtype;
  p.out_dtype = out_lane.dtype;
  p.rows = out.rows;
  p.columns = out.columns;
  p.inner = a.columns;
  p.batch = out_lane.rank() == 3 ? out_lane.dims[0] : 1;
  p.a = *as;
  p.b = *bs;
  p.c = p.out = *outs;
  return std::nullopt;
}

std::optional<Lane> AsMatrix(const Lane& lane) {
  Lane matrix = lane;
  const int rank = lane.rank();
  matrix.dims = {1, lane.dims[rank - 1]};
  matrix.strides = {0, lane.strides[rank - 1]};
  for (int d = rank - 1; d-- > 0;) {
    if (lane.dims[d] == 1) continue;
    if (matrix.dims[0] == 1) {
      matrix.strides[0] = lane.strides[d];
    } else if (lane.strides[d] != matrix.strides[0] * matrix.dims[0]) {
      return std::nullopt;
    }
    matrix.dims[0] *= lane.dims[d];
  }
  return matrix;
}

}  // namespace mica::cuda
