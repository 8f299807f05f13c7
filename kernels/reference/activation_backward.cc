// Gradients of activation functions.

#include <cmath>

#include "kernels/reference/numbers.h"
#include "kernels/reference/pointwise.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

template <typename F>
void Add(KernelRegistry& registry, absl::string_view op,
         absl::InlinedVector<int, 5> params, F f) {
  AddPointwise(registry, op, {std::move(params), MakeFns(f)});
}

// Both halves of self along the axis; the gradient is of half its size.
Verdict PrepareGluBackward(const KernelRequest& request) {
  const Lane grad = OperandLane(request, 0);
  const Lane self = OperandLane(request, 1);
  const Lane out = ResultLane(request);
  const int axis = AxisIndex(request.Int(2), self.rank());
  const int64_t self_half = grad.dims[axis] * self.strides[axis];
  const int64_t out_half = grad.dims[axis] * out.strides[axis];
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(grad.dims, {grad.strides, self.strides, out.strides});
         !at.done(); at.Next()) {
      const double g = grad.Load<double>(args, at.offset(0));
      const double x = self.Load<double>(args, at.offset(1));
      const double s =
          Sigmoid(self.Load<double>(args, at.offset(1) + self_half));
      out.Store(args, at.offset(2), g * s);
      out.Store(args, at.offset(2) + out_half, g * x * s * (1 - s));
    }
    return true;
  });
}

Verdict PreparePreluBackward(const KernelRequest& request) {
  const Lane grad = OperandLane(request, 0);
  const Lane self = OperandLane(request, 1);
  const Lane weight = OperandLane(request, 2);
  const Lane outs[] = {ResultLane(request, 0), ResultLane(request, 1)};
  const Lane grad_self = outs[0], grad_weight = outs[1];
  const Dims grad_strides = BroadcastStrides(grad, grad_self.dims);
  const Dims self_strides = BroadcastStrides(self, grad_self.dims);
  const Dims weight_strides = BroadcastStrides(weight, grad_self.dims);
  return RunBody([=](void* const* args, LaunchContext&) {
    for (Odometer at(grad_self.dims,
                     {grad_strides, self_strides, weight_strides,
                      grad_self.strides, grad_weight.strides});
         !at.done(); at.Next()) {
      const double g = grad.Load<double>(args, at.offset(0));
      const double x = self.Load<double>(args, at.offset(1));
      const double w = weight.Load<double>(args, at.offset(2));
      if (!grad_self.IsUnused(args)) {
        grad_self.Store(args, at.offset(3), x > 0 ? g : w * g);
      }
      if (!grad_weight.IsUnused(args)) {
        grad_weight.Store(args, at.offset(4), x > 0 ? 0 : x * g);
      }
    }
    return true;
  });
}

// x[0] is the gradient, x[1] the input.
void RegisterRectifiers(KernelRegistry& registry) {
  Add(registry, "aten.threshold_backward", {0, 1, 2},
      [](const auto* x) { return x[1] <= x[2] ? 0 : x[0]; });
  Add(registry, "aten.hardtanh_backward", {0, 1, 2, 3},
      [](const auto* x) { return x[1] <= x[2] || x[1] >= x[3] ? 0 : x[0]; });
  Add(registry, "aten.leaky_relu_backward", {0, 1, 2},
      [](const auto* x) { return x[1] > 0 ? x[0] : Product(x[0], x[2]); });
  Add(registry, "aten.hardswish_backward", {0, 1}, [](const auto* x) {
    if (x[1] <= -3) return 0.0;
    return x[1] < 3 ? x[0] * (x[1] / 3.0 + 0.5) : x[0] * 1.0;
  });
  Add(registry, "aten.hardsigmoid_backward", {0, 1},
      [](const auto* x) { return x[1] > -3 && x[1] < 3 ? x[0] / 6.0 : 0.0; });
  for (const char* op :
       {"aten.hardshrink_backward", "aten.softshrink_backward"}) {
    Add(registry, op, {0, 1, 2}, [](const auto* x) {
      return x[1] >= Negated(x[2]) && x[1] <= x[2] ? 0 : x[0];
    });
  }
  AddReference(registry, "aten._prelu_kernel_backward", PreparePreluBackward);
}

// In double, so that float results are rounded once.
void RegisterSmooth(KernelRegistry& registry) {
  Add(registry, "aten.sigmoid_backward", {0, 1}, [](const auto* x) {
    const double y = x[1];
    return x[0] * ((1 - y) * y);
  });
  Add(registry, "aten.tanh_backward", {0, 1}, [](const auto* x) {
    const double y = x[1];
    return x[0] * (1 - y * y);
  });
  Add(registry, "aten.silu_backward", {0, 1}, [](const auto* x) {
    const double s = Sigmoid<double>(x[1]);
    return x[0] * (s * (1 + x[1] * (1 - s)));
  });
  Add(registry, "aten.mish_backward", {0, 1}, [](const auto* x) {
    const double s = Sigmoid<double>(x[1]);
    const double t = std::tanh(std::log1p(std::exp(1.0 * x[1])));
    return x[0] * (t + x[1] * s * (1 - t * t));
  });
  // x: gradient, alpha, scale, input scale, is_result, input or result.
  Add(registry, "aten.elu_backward", {0, 1, 2, 3, 4, 5}, [](const auto* x) {
    if (!(x[5] <= 0)) return 1.0 * x[0] * x[2];
    const double slope = 1.0 * x[1] * x[2];
    return x[4] != 0 ? x[0] * x[3] * (x[5] + slope)
                     : x[0] * x[3] * slope * std::exp(1.0 * x[5] * x[3]);
  });
  Add(registry, "aten.softplus_backward", {0, 1, 2, 3}, [](const auto* x) {
    const double scaled = 1.0 * x[1] * x[2];
    return scaled > x[3] ? 1.0 * x[0] : x[0] * Sigmoid(scaled);
  });
  Add(registry, "aten.log_sigmoid_backward", {0, 1, 2}, [](const auto* x) {
    const double share = x[2] / (1.0 + x[2]);
    return x[0] * (x[1] < 0 ? 1 - share : share);
  });
  Add(registry, "aten.native_dropout_backward", {0, 1, 2},
      [](const auto* x) { return x[0] * x[1] * x[2]; });
  AddReference(registry, "aten.glu_backward", PrepareGluBackward);
}

}  // namespace

void RegisterReferenceActivationBackward(KernelRegistry& registry) {
  RegisterRectifiers(registry);
  RegisterSmooth(registry);
}

}  // namespace mica
