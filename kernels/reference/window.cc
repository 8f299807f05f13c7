#include "kernels/reference/window.h"

#include <algorithm>

namespace mica {
namespace {

int64_t IntOr(const KernelRequest& request, int param, int64_t otherwise) {
  return request.Has(param) ? request.Int(param) : otherwise;
}

}  // namespace

MovedWindow::MovedWindow(const KernelRequest& request, int offset)
    : op_(request.def->name()), offset_(OperandLane(request, offset)) {
  const absl::Span<const int64_t> dims = request.Ints(offset - 2);
  const absl::Span<const int64_t> strides = request.Ints(offset - 1);
  window_.dims.assign(dims.begin(), dims.end());
  window_.strides.assign(strides.begin(), strides.end());
  const TensorType& base = request.operands[0].type;
  const TensorType window = {
      .dtype = base.dtype, .dims = window_.dims, .strides = window_.strides};
  last_ =
      (base.extent_bytes() - window.extent_bytes()) / ElementBytes(base.dtype);
}

bool MovedWindow::Locate(void* const* args, int64_t* offset,
                         LaunchContext& context) const {
  const double given = offset_.Load<double>(args, 0);
  if (given >= 0 && given <= static_cast<double>(last_)) {
    *offset = static_cast<int64_t>(given);
    return true;
  }
  return context.Fail(absl::InvalidArgumentError(absl::StrCat(
      op_, ": wants an offset from 0 to ", last_, ", got ", given)));
}

Window SliceWindow(const KernelRequest& request) {
  const Lane out = ResultLane(request);
  const int axis = AxisIndex(request.Int(2), out.rank());
  const int64_t size = out.dims[axis], step = request.Int(5);
  auto clamp = [size](int64_t index, int64_t least) {
    return std::clamp(index < 0 ? index + size : index, least, size);
  };
  const int64_t start = clamp(IntOr(request, 3, 0), 0);
  const int64_t end = clamp(IntOr(request, 4, INT64_MAX), start);
  Window window = {.dims = out.dims,
                   .strides = out.strides,
                   .offset = start * out.strides[axis]};
  window.dims[axis] = end == start ? 0 : (end - start - 1) / step + 1;
  // Of one row the stride is free, and a huge step no overflow.
  window.strides[axis] = window.dims[axis] > 1 ? out.strides[axis] * step : 0;
  return window;
}

Window SelectWindow(const KernelRequest& request) {
  const Lane out = ResultLane(request);
  const AxisLane along = SplitAxis(out, AxisIndex(request.Int(2), out.rank()));
  const int64_t index = request.Int(3);
  return {.dims = along.outer.dims,
          .strides = along.outer.strides,
          .offset = (index < 0 ? index + along.size : index) * along.stride};
}

Window DiagonalWindow(const KernelRequest& request) {
  const Lane out = ResultLane(request);
  const int64_t shift = request.Int(2);
  const int a = AxisIndex(request.Int(3), out.rank());
  const int b = AxisIndex(request.Int(4), out.rank());
  const int64_t rows = out.dims[a] + std::min<int64_t>(shift, 0);
  const int64_t columns = out.dims[b] - std::max<int64_t>(shift, 0);
  Window window;
  for (int i = 0; i < out.rank(); ++i) {
    if (i == a || i == b) continue;
    window.dims.push_back(out.dims[i]);
    window.strides.push_back(out.strides[i]);
  }
  window.dims.push_back(std::max<int64_t>(std::min(rows, columns), 0));
  window.strides.push_back(out.strides[a] + out.strides[b]);
  // A shift past the end, however far, leads to no element.
  if (window.dims.back() > 0) {
    window.offset =
        shift >= 0 ? shift * out.strides[b] : -shift * out.strides[a];
  }
  return window;
}

}  // namespace mica
