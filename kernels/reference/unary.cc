// Functions of one number.

#include <limits>
#include <type_traits>

#include "kernels/reference/numbers.h"
#include "kernels/reference/pointwise.h"
#include "kernels/reference/reference.h"

namespace mica {
namespace {

// Adds a kernel of one operand.
template <typename F>
void Add(KernelRegistry& registry, absl::string_view op, F f) {
  AddPointwise(registry, op, {{0}, MakeFns(f)});
}

template <typename F>
void AddPredicate(KernelRegistry& registry, absl::string_view op, F f) {
  AddPointwise(
      registry, op,
      {.params = {0}, .fns = MakeFns(f), .compute = ComputeIn::kOperands});
}

// Real functions; the results are floating-point whatever the operand was.
void RegisterReal(KernelRegistry& registry) {
  Add(registry, "aten.exp", [](const auto* x) { return std::exp(*x); });
  Add(registry, "aten.expm1", [](const auto* x) { return std::expm1(*x); });
  Add(registry, "aten.exp2", [](const auto* x) { return std::exp2(*x); });
  Add(registry, "aten.log", [](const auto* x) { return std::log(*x); });
  Add(registry, "aten.log1p", [](const auto* x) { return std::log1p(*x); });
  Add(registry, "aten.log2", [](const auto* x) { return std::log2(*x); });
  Add(registry, "aten.log10", [](const auto* x) { return std::log10(*x); });
  Add(registry, "aten.sqrt", [](const auto* x) { return std::sqrt(*x); });
  Add(registry, "aten.rsqrt", [](const auto* x) { return 1 / std::sqrt(*x); });
  Add(registry, "aten.sin", [](const auto* x) { return std::sin(*x); });
  Add(registry, "aten.cos", [](const auto* x) { return std::cos(*x); });
  Add(registry, "aten.tan", [](const auto* x) { return std::tan(*x); });
  Add(registry, "aten.asin", [](const auto* x) { return std::asin(*x); });
  Add(registry, "aten.acos", [](const auto* x) { return std::acos(*x); });
  Add(registry, "aten.atan", [](const auto* x) { return std::atan(*x); });
  Add(registry, "aten.sinh", [](const auto* x) { return std::sinh(*x); });
  Add(registry, "aten.cosh", [](const auto* x) { return std::cosh(*x); });
  Add(registry, "aten.tanh", [](const auto* x) { return std::tanh(*x); });
  Add(registry, "aten.asinh", [](const auto* x) { return std::asinh(*x); });
  Add(registry, "aten.acosh", [](const auto* x) { return std::acosh(*x); });
  Add(registry, "aten.atanh", [](const auto* x) { return std::atanh(*x); });
  Add(registry, "aten.erf", [](const auto* x) { return std::erf(*x); });
  Add(registry, "aten.erfc", [](const auto* x) { return std::erfc(*x); });
  Add(registry, "aten.sigmoid", [](const auto* x) { return Sigmoid(*x); });
  Add(registry, "aten.reciprocal", [](const auto* x) { return 1.0 / *x; });
}

void RegisterRounding(KernelRegistry& registry) {
  Add(registry, "aten.floor", [](const auto* x) { return Floor(*x); });
  Add(registry, "aten.ceil", [](const auto* x) { return Ceil(*x); });
  Add(registry, "aten.trunc", [](const auto* x) { return Trunc(*x); });
  Add(registry, "aten.round", [](const auto* x) { return Round(*x); });
  Add(registry, "aten.frac", [](const auto* x) { return *x - Trunc(*x); });
  AddPointwise(registry, "aten.round.decimals",
               {{0, 1}, MakeFns([](const auto* x) {
                  using C = std::decay_t<decltype(*x)>;
                  // A whole power of ten, for negative decimals as well.
                  const C scale = Power(C{10}, Magnitude(x[1]));
                  if (x[1] == 0 || std::is_integral_v<C>) return Round(x[0]);
                  return x[1] < 0 ? Round(x[0] / scale) * scale
                                  : Round(x[0] * scale) / scale;
                })});
}

void RegisterSigns(KernelRegistry& registry) {
  Add(registry, "aten.neg", [](const auto* x) { return Negated(*x); });
  Add(registry, "aten.abs", [](const auto* x) { return Magnitude(*x); });
  for (absl::string_view op : {"aten.sign", "aten.sgn"}) {
    Add(registry, op, [](const auto* x) { return (*x > 0) - (*x < 0); });
  }
  Add(registry, "aten.square", [](const auto* x) { return Product(*x, *x); });
  AddReference(
      registry, "aten.bitwise_not",
      [flip = PointwiseKernel{{0}, MakeFns([](const auto* x) {
                                return ~static_cast<int64_t>(*x);
                              })},
       negate = PointwiseKernel{{0}, MakeFns([](const auto* x) {
                                  return *x == 0;
                                })}](const KernelRequest& request) -> Verdict {
        const bool is_bool = request.results[0].type.dtype == DType::kBool;
        return PreparePointwise(request, is_bool ? negate : flip);
      });
}

void RegisterPredicates(KernelRegistry& registry) {
  AddPredicate(registry, "aten.isnan", [](const auto* x) { return *x != *x; });
  AddPredicate(registry, "aten.isinf", [](const auto* x) {
    return std::isinf(static_cast<double>(*x));
  });
  AddPredicate(registry, "aten.isfinite", [](const auto* x) {
    return std::isfinite(static_cast<double>(*x));
  });
  AddPredicate(registry, "aten.signbit", [](const auto* x) {
    return std::signbit(static_cast<double>(*x));
  });
  AddPredicate(registry, "aten.logical_not",
               [](const auto* x) { return *x == 0; });
}

// The numbers that stand for NaN and infinities depend on the dtype.
Verdict PrepareNanToNum(const KernelRequest& request) {
  const bool is_f64 = request.results[0].type.dtype == DType::kF64;
  const double most = is_f64 ? std::numeric_limits<double>::max()
                             : std::numeric_limits<float>::max();
  return PreparePointwise(request, {.params = {0, 1, 2, 3},
                                    .fns = MakeFns([](const auto* x) {
                                      if (IsNan(x[0])) return x[1];
                                      const double value = x[0];
                                      if (!std::isinf(value)) return x[0];
                                      return value > 0 ? x[2] : x[3];
                                    }),
                                    .none_values = {0, 0, most, -most}});
}

}  // namespace

void RegisterReferenceUnary(KernelRegistry& registry) {
  RegisterReal(registry);
  RegisterRounding(registry);
  RegisterSigns(registry);
  RegisterPredicates(registry);
  AddReference(registry, "aten.nan_to_num", PrepareNanToNum);
  AddPointwise(registry, "aten.logit",
               {.params = {0, 1},
                .fns = MakeFns([](const auto* x) {
                  const auto high = 1 - x[1];
                  auto p = *x;
                  if (x[1] >= 0) p = p < x[1] ? x[1] : p > high ? high : p;
                  return std::log(p / (1 - p) + 0 * p);
                }),
                .none_values = {0, -1}});
}

}  // namespace mica
