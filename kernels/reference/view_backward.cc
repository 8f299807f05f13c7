// Gradients of views: zeros with the gradient written through the view.

#include <algorithm>
#include <utility>

#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// A window of the result: `dims` from `offset` in `strides`.
struct Window {
  Dims dims, strides;
  int64_t offset = 0;
};

void StoreZero(const Lane& lane, void* const* args, int64_t offset) {
  lane.Store(args, offset, int64_t{0});
}

Prepared WriteWindow(const KernelRequest& request, Window window) {
  const Lane grad = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  const Dims grad_strides = BroadcastStrides(grad, window.dims);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(out.dims, {out.strides}); !at.done(); at.Next()) {
      StoreZero(out, args, at.offset(0));
    }
    for (Odometer at(window.dims, {grad_strides, window.strides}); !at.done();
         at.Next()) {
      const int64_t to = window.offset + at.offset(1);
      if (IsFloating(out.dtype)) {
        out.Store(args, to, grad.Load<double>(args, at.offset(0)));
      } else {
        out.Store(args, to, grad.Load<int64_t>(args, at.offset(0)));
      }
    }
    return true;
  });
}

Verdict PrepareSlice(const KernelRequest& request) {
  const Lane out = ResultLane(request);
  const int axis = AxisIndex(request.Int(2), out.rank());
  const int64_t size = out.dims[axis], step = request.Int(5);
  auto clamp = [size](int64_t index, int64_t least) {
    return std::clamp(index < 0 ? index + size : index, least, size);
  };
  const int64_t start = clamp(request.Int(3), 0);
  const int64_t end = clamp(request.Int(4), start);
  Window window = {.dims = out.dims,
                   .strides = out.strides,
                   .offset = start * out.strides[axis]};
  window.dims[axis] = end == start ? 0 : (end - start - 1) / step + 1;
  // Of one row the stride is free, and a huge step no overflow.
  window.strides[axis] = window.dims[axis] > 1 ? out.strides[axis] * step : 0;
  return WriteWindow(request, std::move(window));
}

Verdict PrepareSelect(const KernelRequest& request) {
  const Lane out = ResultLane(request);
  const AxisLane along = SplitAxis(out, AxisIndex(request.Int(2), out.rank()));
  const int64_t index = request.Int(3);
  return WriteWindow(
      request,
      {.dims = along.outer.dims,
       .strides = along.outer.strides,
       .offset = (index < 0 ? index + along.size : index) * along.stride});
}

Verdict PrepareDiagonal(const KernelRequest& request) {
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
  if (window.dims.back() > 0) {
    window.offset =
        shift >= 0 ? shift * out.strides[b] : -shift * out.strides[a];
  }
  return WriteWindow(request, std::move(window));
}

}  // namespace

void RegisterReferenceViewBackward(KernelRegistry& registry) {
  AddReference(registry, "aten.slice_backward", PrepareSlice);
  AddReference(registry, "aten.select_backward", PrepareSelect);
  AddReference(registry, "aten.diagonal_backward", PrepareDiagonal);
}

}  // namespace mica
