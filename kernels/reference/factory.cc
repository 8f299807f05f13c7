// Tensors from nothing but numbers.

#include <cmath>

#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// A number that is a constant of the op or a host scalar value.
struct Number {
  bool is_value = false;
  Lane lane;
  double real = 0;
  int64_t integer = 0;
  bool is_integer = false;

  void StoreTo(const Lane& out, int64_t at, void* const* args) const {
    const bool is_float = is_value ? IsFloating(lane.dtype) : !is_integer;
    const double x = is_value ? lane.Load<double>(args, 0) : real;
    const int64_t n = is_value ? lane.Load<int64_t>(args, 0) : integer;
    if (is_float) {
      out.Store(args, at, x);
    } else {
      out.Store(args, at, n);
    }
  }
};

Number MakeNumber(const KernelRequest& request, int param) {
  Number number = {.is_value = request.OperandIndex(param) >= 0};
  if (number.is_value) {
    number.lane = OperandLane(request, param);
    return number;
  }
  number.real = request.Number(param);
  const Argument& argument = (*request.arguments)[param];
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    number.integer = *integer;
    number.is_integer = true;
  }
  return number;
}

Prepared FillWith(const KernelRequest& request, Number number) {
  const Lane out = ResultLane(request);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(out.dims, {out.strides}); !at.done(); at.Next()) {
      number.StoreTo(out, at.offset(0), args);
    }
    return true;
  });
}

void AddFill(KernelRegistry& registry, absl::string_view op, int64_t value) {
  AddReference(registry, op, [value](const KernelRequest& request) -> Verdict {
    return FillWith(request, {.integer = value, .is_integer = true});
  });
}

void AddFull(KernelRegistry& registry, absl::string_view op, int param) {
  AddReference(registry, op, [param](const KernelRequest& request) -> Verdict {
    return FillWith(request, MakeNumber(request, param));
  });
}

// Any contents are right: nothing to do.
Verdict PrepareEmpty(const KernelRequest&) {
  return RunBody([](void* const*, LaunchContext&) { return true; });
}

// Element i of a list is `real(i)`, or `integer(i)` for integer dtypes.
Prepared FillList(const KernelRequest& request,
                  std::function<double(int64_t)> real,
                  std::function<int64_t(int64_t)> integer) {
  const Lane out = ResultLane(request);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (int64_t i = 0; i < out.dims[0]; ++i) {
      if (IsFloating(out.dtype)) {
        out.Store(args, i * out.strides[0], real(i));
      } else {
        out.Store(args, i * out.strides[0], integer(i));
      }
    }
    return true;
  });
}

// `start` and `step` are parameters, or -1 for 0 and 1.
void AddArange(KernelRegistry& registry, absl::string_view op, int start,
               int step) {
  AddReference(registry, op, [=](const KernelRequest& request) -> Verdict {
    const double first = start < 0 ? 0 : request.Number(start);
    const double stride = step < 0 ? 1 : request.Number(step);
    return FillList(
        request, [=](int64_t i) { return first + stride * i; },
        [first = ConvertNumber<int64_t>(first),
         stride = ConvertNumber<int64_t>(stride)](int64_t i) {
          return first + stride * i;
        });
  });
}

// Element i of `steps` numbers, from the nearer end, so that both are exact.
template <typename C>
C EvenlySpaced(C first, C last, int64_t steps, int64_t i) {
  if (steps == 1) return first;
  const C stride = (last - first) / static_cast<C>(steps - 1);
  return i < steps / 2 ? first + stride * static_cast<C>(i)
                       : last - stride * static_cast<C>(steps - 1 - i);
}

// Integers lose the fractions of their ends first.
Verdict PrepareLinspace(const KernelRequest& request) {
  const double first = request.Number(0);
  const double last = request.Number(1);
  const int64_t steps = request.Int(2);
  const double low = std::trunc(first);
  const double high = std::trunc(last);
  return FillList(
      request, [=](int64_t i) { return EvenlySpaced(first, last, steps, i); },
      [=](int64_t i) {
        return ConvertNumber<int64_t>(EvenlySpaced(low, high, steps, i));
      });
}

Verdict PrepareEye(const KernelRequest& request) {
  const Lane out = ResultLane(request);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(out.dims, {out.strides}); !at.done(); at.Next()) {
      const bool is_diagonal = at.index()[0] == at.index()[1];
      out.Store(args, at.offset(0), int64_t{is_diagonal});
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceFactories(KernelRegistry& registry) {
  for (absl::string_view op :
       {"aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.zero"}) {
    AddFill(registry, op, 0);
  }
  for (absl::string_view op :
       {"aten.ones", "aten.ones_like", "aten.new_ones"}) {
    AddFill(registry, op, 1);
  }
  AddFull(registry, "aten.full", 1);
  AddFull(registry, "aten.full_like", 1);
  AddFull(registry, "aten.new_full", 2);
  AddFull(registry, "aten.scalar_tensor", 0);
  for (absl::string_view op :
       {"aten.empty.memory_format", "aten.empty_like", "aten.new_empty",
        "aten.empty_strided", "aten.new_empty_strided"}) {
    AddReference(registry, op, PrepareEmpty);
  }
  AddArange(registry, "aten.arange", -1, -1);
  AddArange(registry, "aten.arange.start", 0, -1);
  AddArange(registry, "aten.arange.start_step", 0, 2);
  AddReference(registry, "aten.linspace", PrepareLinspace);
  AddReference(registry, "aten.eye", PrepareEye);
  AddReference(registry, "aten.eye.m", PrepareEye);
}

}  // namespace mica
