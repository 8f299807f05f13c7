// Gradients of views: zeros with the gradient written through the view.

#include <algorithm>
#include <utility>

#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"
#include "kernels/reference/window.h"

namespace mica {
namespace {

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

// The gradient of the view that `place` gives.
PrepareFn GradientThrough(Window (*place)(const KernelRequest&)) {
  return [place](const KernelRequest& request) -> Verdict {
    return WriteWindow(request, place(request));
  };
}

}  // namespace

void RegisterReferenceViewBackward(KernelRegistry& registry) {
  AddReference(registry, "aten.slice_backward", GradientThrough(SliceWindow));
  AddReference(registry, "aten.select_backward", GradientThrough(SelectWindow));
  AddReference(registry, "aten.diagonal_backward",
               GradientThrough(DiagonalWindow));
}

}  // namespace mica
