// Arithmetic of two and more operands.

#include <limits>
#include <type_traits>

#include "kernels/reference/numbers.h"
#include "kernels/reference/pointwise.h"
#include "kernels/reference/reference.h"

namespace mica {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Only floats come here: integers are converted to f32 first.
template <typename C>
C TrueQuotient(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return 0;
  } else {
    return a / b;
  }
}

PointwiseKernel TrueQuotientKernel() {
  return {{0, 1},
          MakeFns([](const auto* x) { return TrueQuotient(x[0], x[1]); })};
}

void RegisterSums(KernelRegistry& registry) {
  for (absl::string_view op : {"aten.add.Tensor", "aten.add.Scalar"}) {
    AddPointwise(registry, op, {{0, 1, 2}, MakeFns([](const auto* x) {
                                  return Sum(x[0], Product(x[2], x[1]));
                                })});
  }
  for (absl::string_view op : {"aten.sub.Tensor", "aten.sub.Scalar"}) {
    AddPointwise(registry, op, {{0, 1, 2}, MakeFns([](const auto* x) {
                                  return Difference(x[0], Product(x[2], x[1]));
                                })});
  }
  for (absl::string_view op : {"aten.rsub.Tensor", "aten.rsub.Scalar"}) {
    AddPointwise(registry, op, {{0, 1, 2}, MakeFns([](const auto* x) {
                                  return Difference(x[1], Product(x[2], x[0]));
                                })});
  }
  AddPointwise(registry, "aten.addcmul",
               {{0, 1, 2, 3}, MakeFns([](const auto* x) {
                  return Sum(x[0], Product(Product(x[3], x[1]), x[2]));
                })});
  AddPointwise(registry, "aten.addcdiv",
               {{0, 1, 2, 3}, MakeFns([](const auto* x) {
                  return x[0] + TrueQuotient(x[3] * x[1], x[2]);
                })});
  for (absl::string_view op : {"aten.lerp.Scalar", "aten.lerp.Tensor"}) {
    // From the nearer end, so that weights 0 and 1 give the ends themselves.
    AddPointwise(registry, op, {{0, 1, 2}, MakeFns([](const auto* x) {
                                  const auto way = x[1] - x[0];
                                  return std::fabs(x[2]) < 0.5
                                             ? x[0] + x[2] * way
                                             : x[1] - way * (1 - x[2]);
                                })});
  }
}

void AddQuotientWithMode(KernelRegistry& registry, absl::string_view op) {
  const PointwiseKernel exact = TrueQuotientKernel();
  const PointwiseKernel floored = {
      .params = {0, 1},
      .fns = MakeFns([](const auto* x) { return FlooredQuotient(x[0], x[1]); }),
      .divisor = 1};
  const PointwiseKernel truncated = {.params = {0, 1},
                                     .fns = MakeFns([](const auto* x) {
                                       return TruncatedQuotient(x[0], x[1]);
                                     }),
                                     .divisor = 1};
  AddReference(registry, op, [=](const KernelRequest& request) -> Verdict {
    if (!request.Has(2)) return PreparePointwise(request, exact);
    return PreparePointwise(request,
                            request.String(2) == "floor" ? floored : truncated);
  });
}

void RegisterProducts(KernelRegistry& registry) {
  for (absl::string_view op : {"aten.mul.Tensor", "aten.mul.Scalar"}) {
    AddPointwise(
        registry, op,
        {{0, 1}, MakeFns([](const auto* x) { return Product(x[0], x[1]); })});
  }
  AddPointwise(registry, "aten.div.Tensor", TrueQuotientKernel());
  AddPointwise(registry, "aten.div.Scalar", TrueQuotientKernel());
  AddQuotientWithMode(registry, "aten.div.Tensor_mode");
  AddQuotientWithMode(registry, "aten.div.Scalar_mode");
  for (absl::string_view op :
       {"aten.floor_divide", "aten.floor_divide.Scalar"}) {
    AddPointwise(registry, op,
                 {.params = {0, 1},
                  .fns = MakeFns([](const auto* x) {
                    return FlooredQuotient(x[0], x[1]);
                  }),
                  .divisor = 1});
  }
  for (absl::string_view op : {"aten.remainder.Tensor", "aten.remainder.Scalar",
                               "aten.remainder.Scalar_Tensor"}) {
    AddPointwise(registry, op,
                 {.params = {0, 1},
                  .fns = MakeFns([](const auto* x) {
                    return FlooredRemainder(x[0], x[1]);
                  }),
                  .divisor = 1});
  }
  for (absl::string_view op : {"aten.fmod.Tensor", "aten.fmod.Scalar"}) {
    AddPointwise(registry, op,
                 {.params = {0, 1},
                  .fns = MakeFns([](const auto* x) {
                    return TruncatedRemainder(x[0], x[1]);
                  }),
                  .divisor = 1});
  }
}

// Exponents of a half that are numbers are square roots to torch: NaN at
// -infinity.
template <typename T>
T PowerOf(T x, T exponent) {
  if constexpr (std::is_floating_point_v<T>) {
    if (exponent == 0.5) return std::sqrt(x);
    if (exponent == -0.5) return 1 / std::sqrt(x);
  }
  return Power(x, exponent);
}

void RegisterPowers(KernelRegistry& registry) {
  AddPointwise(
      registry, "aten.pow.Tensor_Scalar",
      {{0, 1}, MakeFns([](const auto* x) { return PowerOf(x[0], x[1]); })});
  for (absl::string_view op : {"aten.pow.Tensor_Tensor", "aten.pow.Scalar"}) {
    AddPointwise(
        registry, op,
        {{0, 1}, MakeFns([](const auto* x) { return Power(x[0], x[1]); })});
  }
  AddPointwise(
      registry, "aten.atan2",
      {{0, 1}, MakeFns([](const auto* x) { return std::atan2(x[0], x[1]); })});
  AddPointwise(
      registry, "aten.hypot",
      {{0, 1}, MakeFns([](const auto* x) { return std::hypot(x[0], x[1]); })});
  AddPointwise(registry, "aten.copysign.Tensor",
               {{0, 1}, MakeFns([](const auto* x) {
                  return std::copysign(x[0], x[1]);
                })});
  AddPointwise(registry, "aten.xlogy.Tensor",
               {{0, 1}, MakeFns([](const auto* x) {
                  using Real = decltype(std::log(x[1]));
                  if (x[0] == 0 && !IsNan(x[1])) return Real{0};
                  return static_cast<Real>(x[0] * std::log(x[1]));
                })});
  AddPointwise(registry, "aten.logaddexp",
               {{0, 1}, MakeFns([](const auto* x) {
                  const double a = x[0];
                  const double b = x[1];
                  if (a == b && std::isinf(a)) return a;
                  return Larger(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
                })});
}

void RegisterExtremes(KernelRegistry& registry) {
  const PointwiseKernel larger = {
      {0, 1}, MakeFns([](const auto* x) { return Larger(x[0], x[1]); })};
  const PointwiseKernel smaller = {
      {0, 1}, MakeFns([](const auto* x) { return Smaller(x[0], x[1]); })};
  for (absl::string_view op :
       {"aten.maximum", "aten.clamp_min", "aten.clamp_min.Tensor"}) {
    AddPointwise(registry, op, larger);
  }
  for (absl::string_view op :
       {"aten.minimum", "aten.clamp_max", "aten.clamp_max.Tensor"}) {
    AddPointwise(registry, op, smaller);
  }
  AddPointwise(registry, "aten.fmax", {{0, 1}, MakeFns([](const auto* x) {
                                         if (IsNan(x[1])) return x[0];
                                         return x[0] >= x[1] ? x[0] : x[1];
                                       })});
  AddPointwise(registry, "aten.fmin", {{0, 1}, MakeFns([](const auto* x) {
                                         if (IsNan(x[1])) return x[0];
                                         return x[0] <= x[1] ? x[0] : x[1];
                                       })});
  for (absl::string_view op : {"aten.clamp", "aten.clamp.Tensor"}) {
    AddPointwise(registry, op,
                 {.params = {0, 1, 2},
                  .fns = MakeFns([](const auto* x) {
                    return Smaller(Larger(x[0], x[1]), x[2]);
                  }),
                  .none_values = {0, -kInfinity, kInfinity}});
  }
}

}  // namespace

void RegisterReferenceArithmetic(KernelRegistry& registry) {
  RegisterSums(registry);
  RegisterProducts(registry);
  RegisterPowers(registry);
  RegisterExtremes(registry);
}

}  // namespace mica
