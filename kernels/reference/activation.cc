// Activation functions.

#include "kernels/reference/activation.h"

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

Verdict PrepareGelu(const KernelRequest& request) {
  static const PointwiseKernel by_erf = {
      {0}, MakeFns([](const auto* x) { return GeluErf<double>(*x); })};
  static const PointwiseKernel by_tanh = {
      {0}, MakeFns([](const auto* x) { return GeluTanh<double>(*x); })};
  return PreparePointwise(request,
                          request.String(1) == "tanh" ? by_tanh : by_erf);
}

// The first half of the axis times the sigmoid of the second.
Verdict PrepareGlu(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  const int axis = AxisIndex(request.Int(1), in.rank());
  const int64_t half = out.dims[axis] * in.strides[axis];
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(out.dims, {in.strides, out.strides}); !at.done();
         at.Next()) {
      const double x = in.Load<double>(args, at.offset(0));
      const double gate = in.Load<double>(args, at.offset(0) + half);
      out.Store<double>(args, at.offset(1), x * Sigmoid(gate));
    }
    return true;
  });
}

// Eager keeps exp(-|x|) for the backward pass.
Verdict PrepareLogSigmoid(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  const Lane out = ResultLane(request, 0);
  const Lane buffer = ResultLane(request, 1);
  return RunBody([=](void* const* args, LaunchContext&) {
    for (Odometer at(in.dims, {in.strides, out.strides, buffer.strides});
         !at.done(); at.Next()) {
      const double x = in.Load<double>(args, at.offset(0));
      const double decay = std::exp(-std::fabs(x));
      if (!out.IsUnused(args)) {
        out.Store(args, at.offset(1), Smaller(x, 0.0) - std::log1p(decay));
      }
      if (!buffer.IsUnused(args)) buffer.Store(args, at.offset(2), decay);
    }
    return true;
  });
}

void RegisterRectifiers(KernelRegistry& registry) {
  Add(registry, "aten.relu", {0},
      [](const auto* x) { return *x < 0 ? 0 : *x; });
  Add(registry, "aten.leaky_relu", {0, 1},
      [](const auto* x) { return x[0] > 0 ? x[0] : Product(x[0], x[1]); });
  Add(registry, "aten._prelu_kernel", {0, 1},
      [](const auto* x) { return x[0] > 0 ? x[0] : Product(x[0], x[1]); });
  Add(registry, "aten.threshold", {0, 1, 2},
      [](const auto* x) { return x[0] <= x[1] ? x[2] : x[0]; });
  Add(registry, "aten.hardtanh", {0, 1, 2},
      [](const auto* x) { return Smaller(Larger(x[0], x[1]), x[2]); });
  Add(registry, "aten.hardsigmoid", {0},
      [](const auto* x) { return Smaller(Larger(*x + 3.0, 0.0), 6.0) / 6; });
  Add(registry, "aten.hardswish", {0}, [](const auto* x) {
    return *x * Smaller(Larger(*x + 3.0, 0.0), 6.0) / 6;
  });
  Add(registry, "aten.hardshrink", {0, 1}, [](const auto* x) {
    return x[0] >= Negated(x[1]) && x[0] <= x[1] ? x[0] - x[0] : x[0];
  });
  Add(registry, "aten.softshrink", {0, 1}, [](const auto* x) {
    if (x[0] > x[1]) return x[0] - x[1];
    return x[0] < Negated(x[1]) ? x[0] + x[1] : x[0] * 0;
  });
}

// In double, so that float results are rounded once.
void RegisterSmooth(KernelRegistry& registry) {
  Add(registry, "aten.silu", {0},
      [](const auto* x) { return *x * Sigmoid<double>(*x); });
  Add(registry, "aten.mish", {0}, [](const auto* x) {
    return *x * std::tanh(std::log1p(std::exp(static_cast<double>(*x))));
  });
  Add(registry, "aten.elu", {0, 1, 2, 3}, [](const auto* x) {
    if (x[0] > 0) return 1.0 * x[0] * x[2];
    return std::expm1(1.0 * x[0] * x[3]) * x[1] * x[2];
  });
  Add(registry, "aten.celu", {0, 1}, [](const auto* x) {
    return x[0] > 0 ? 1.0 * x[0] : x[1] * std::expm1(1.0 * x[0] / x[1]);
  });
  Add(registry, "aten.softplus", {0, 1, 2}, [](const auto* x) {
    const double scaled = 1.0 * x[0] * x[1];
    return scaled > x[2] ? x[0] : std::log1p(std::exp(scaled)) / x[1];
  });
}

}  // namespace

double Activated(const std::string& activation, double x) {
  auto relu6 = [](double y) { return y < 0 ? 0 : y > 6 ? 6 : y; };
  if (activation == "relu") return x < 0 ? 0 : x;
  if (activation == "relu6") return relu6(x);
  if (activation == "hardswish") return x * relu6(x + 3) / 6;
  if (activation == "gelu") return GeluErf(x);
  if (activation == "gelu_tanh") return GeluTanh(x);
  if (activation == "tanh") return std::tanh(x);
  if (activation == "sigmoid") return Sigmoid(x);
  if (activation == "silu") return x * Sigmoid(x);
  return x;
}

void RegisterReferenceActivations(KernelRegistry& registry) {
  RegisterRectifiers(registry);
  RegisterSmooth(registry);
  AddReference(registry, "aten.gelu", PrepareGelu);
  AddReference(registry, "aten.glu", PrepareGlu);
  AddReference(registry, "aten.log_sigmoid_forward", PrepareLogSigmoid);
}

}  // namespace mica
