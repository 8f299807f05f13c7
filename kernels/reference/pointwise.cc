#include "kernels/reference/pointwise.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/tensor/promotion.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

constexpr int kMaxOperands = 8;

// One x[i]: a tensor or host scalar value, or a constant.
struct Source {
  bool is_value = false;
  Lane lane;
  Dims strides;  // Over the result's dims.
  double real = 0;
  int64_t integer = 0;
};

struct PointwiseState {
  std::string op;
  std::vector<Source> sources;
  Lane out;
  DType compute = DType::kF32;
  PointwiseKernel kernel;
};

int64_t SaturatedInteger(double value) {
  constexpr double kLimit = 9223372036854775808.0;
  if (value >= kLimit) return std::numeric_limits<int64_t>::max();
  return ConvertNumber<int64_t>(value);
}

Source MakeSource(const KernelRequest& request, int param, double none,
                  absl::Span<const Dim> dims) {
  Source source;
  const Argument& argument = (*request.arguments)[param];
  if (std::holds_alternative<ValueRef>(argument)) {
    source.is_value = true;
    source.lane = OperandLane(request, param);
    source.strides = BroadcastStrides(source.lane, dims);
    return source;
  }
  source.strides = Dims(dims.size(), 0);
  source.real = IsNone(argument) ? none : request.Number(param);
  const auto* integer = std::get_if<int64_t>(&argument);
  source.integer =
      integer != nullptr ? *integer : SaturatedInteger(source.real);
  return source;
}

// x[i] at `offset`, converted to the dtype of the computation.
template <typename C>
C LoadSource(const Source& source, void* const* args, int64_t offset,
             DType compute) {
  if constexpr (std::is_integral_v<C>) {
    if (compute == DType::kBool) {
      if (source.is_value) return source.lane.LoadTruth(args, offset);
      return source.real != 0;
    }
    if (!source.is_value) return source.integer;
    return WrapTo(compute, source.lane.Load<C>(args, offset));
  } else {
    if (!source.is_value) return static_cast<C>(source.real);
    return source.lane.Load<C>(args, offset);
  }
}

template <typename C>
bool RunPointwise(const PointwiseState& state, C (*fn)(const C*),
                  void* const* args, LaunchContext& context) {
  absl::InlinedVector<Dims, 6> strides;
  for (const Source& source : state.sources) {
    strides.push_back(source.strides);
  }
  strides.push_back(state.out.strides);
  const int count = static_cast<int>(state.sources.size());
  const int divisor = std::is_integral_v<C> ? state.kernel.divisor : -1;
  C x[kMaxOperands] = {};
  for (Odometer at(state.out.dims, strides); !at.done(); at.Next()) {
    for (int i = 0; i < count; ++i) {
      x[i] = LoadSource<C>(state.sources[i], args, at.offset(i), state.compute);
    }
    if (divisor >= 0 && x[divisor] == 0) {
      return context.Fail(absl::InvalidArgumentError(
          absl::StrCat(state.op, ": ZeroDivisionError")));
    }
    state.out.Store<C>(args, at.offset(count), fn(x));
  }
  return true;
}

}  // namespace

DType ComputeDType(const KernelRequest& request, absl::Span<const int> params,
                   ComputeIn compute) {
  if (compute == ComputeIn::kResult) return request.results[0].type.dtype;
  Promotion promotion;
  for (int param : params) {
    const Argument& argument = (*request.arguments)[param];
    if (std::holds_alternative<ValueRef>(argument)) {
      promotion.Add(request.operands[request.OperandIndex(param)].type);
    } else if (std::holds_alternative<double>(argument)) {
      promotion.Add(ScalarType(DType::kF64));
    } else if (std::holds_alternative<int64_t>(argument)) {
      promotion.Add(ScalarType(DType::kI64));
    } else if (!IsNone(argument)) {
      promotion.Add(ScalarType(DType::kBool));
    }
  }
  return promotion.dtype();
}

Prepared PreparePointwise(const KernelRequest& request,
                          const PointwiseKernel& kernel) {
  PointwiseState state = {
      .op = request.def->name(),
      .out = ResultLane(request),
      .compute = ComputeDType(request, kernel.params, kernel.compute),
      .kernel = kernel};
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const double none =
        i < kernel.none_values.size() ? kernel.none_values[i] : 0;
    state.sources.push_back(
        MakeSource(request, kernel.params[i], none, state.out.dims));
  }
  return RunBody(
      [state = std::move(state)](void* const* args, LaunchContext& context) {
        if (state.out.IsUnused(args)) return true;
        if (!IsFloating(state.compute)) {
          return RunPointwise(state, state.kernel.fns.i64, args, context);
        }
        if (state.compute == DType::kF64) {
          return RunPointwise(state, state.kernel.fns.f64, args, context);
        }
        return RunPointwise(state, state.kernel.fns.f32, args, context);
      });
}

void AddPointwise(KernelRegistry& registry, absl::string_view op,
                  PointwiseKernel kernel) {
  AddReference(registry, op,
               [kernel = std::move(kernel)](const KernelRequest& request) {
                 return Verdict(PreparePointwise(request, kernel));
               });
}

}  // namespace mica
