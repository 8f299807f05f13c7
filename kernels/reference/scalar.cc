// Arithmetic of host scalars: float64 as CPython computes it, its errors
// included. A step is a load or two, one operation and a store.

#include <cmath>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/reference/element.h"
#include "kernels/reference/reference.h"

namespace mica {
namespace {

// Null if the result is right, else what Python says.
using ScalarFn = const char* (*)(double a, double b, double* result);

struct ScalarOperand {
  int arg = -1;  // -1: the constant.
  DType dtype = DType::kF64;
  double constant = 0;

  double Load(void* const* args) const {
    if (arg < 0) return constant;
    if (dtype == DType::kF64) return *static_cast<const double*>(args[arg]);
    return LoadElement<double>(args[arg], dtype, 0);
  }
};

struct ScalarState {
  ScalarFn fn = nullptr;
  ScalarOperand a, b;
  int out_arg = 0;
  std::string op;
};

bool LaunchScalar(const void* state, void* const* args,
                  LaunchContext& context) {
  const auto& scalar = *static_cast<const ScalarState*>(state);
  void* out = args[scalar.out_arg];
  if (out == nullptr) return true;
  const char* error = scalar.fn(scalar.a.Load(args), scalar.b.Load(args),
                                static_cast<double*>(out));
  if (error == nullptr) return true;
  return context.Fail(
      absl::InvalidArgumentError(absl::StrCat(scalar.op, ": ", error)));
}

ScalarOperand MakeOperand(const KernelRequest& request, int param) {
  const int index = request.OperandIndex(param);
  if (index < 0) return {.constant = request.Number(param)};
  return {.arg = index, .dtype = request.operands[index].type.dtype};
}

void AddScalar(KernelRegistry& registry, absl::string_view op, ScalarFn fn) {
  AddReference(registry, op, [fn](const KernelRequest& request) -> Verdict {
    auto state = std::make_shared<ScalarState>();
    state->fn = fn;
    state->a = MakeOperand(request, 0);
    if (request.arguments->size() > 1) state->b = MakeOperand(request, 1);
    state->out_arg = static_cast<int>(request.operands.size());
    state->op = request.def->name();
    return Prepared{.launch = LaunchScalar, .state = std::move(state)};
  });
}

const char* Power(double a, double b, double* result) {
  if (a == 0 && b < 0) {
    return "ZeroDivisionError: 0.0 cannot be raised to a negative power";
  }
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    return "a negative number to a fractional power is complex";
  }
  *result = std::pow(a, b);
  const bool overflows =
      std::isinf(*result) && std::isfinite(a) && std::isfinite(b);
  return overflows ? "OverflowError: result too large" : nullptr;
}

}  // namespace

void RegisterReferenceScalars(KernelRegistry& registry) {
  AddScalar(registry, "mica.scalar_add",
            [](double a, double b, double* result) -> const char* {
              *result = a + b;
              return nullptr;
            });
  AddScalar(registry, "mica.scalar_sub",
            [](double a, double b, double* result) -> const char* {
              *result = a - b;
              return nullptr;
            });
  AddScalar(registry, "mica.scalar_mul",
            [](double a, double b, double* result) -> const char* {
              *result = a * b;
              return nullptr;
            });
  AddScalar(registry, "mica.scalar_div",
            [](double a, double b, double* result) -> const char* {
              if (b == 0) return "ZeroDivisionError: float division by zero";
              *result = a / b;
              return nullptr;
            });
  AddScalar(registry, "mica.scalar_pow", Power);
  AddScalar(registry, "mica.scalar_lt",
            [](double a, double b, double* result) -> const char* {
              *result = a < b ? 1 : 0;
              return nullptr;
            });
  AddScalar(registry, "mica.scalar_le",
            [](double a, double b, double* result) -> const char* {
              *result = a <= b ? 1 : 0;
              return nullptr;
            });
  AddScalar(registry, "mica.scalar_eq",
            [](double a, double b, double* result) -> const char* {
              *result = a == b ? 1 : 0;
              return nullptr;
            });
  AddScalar(registry, "mica.scalar_neg",
            [](double a, double, double* result) -> const char* {
              *result = -a;
              return nullptr;
            });
  AddScalar(registry, "mica.scalar_sqrt",
            [](double a, double, double* result) -> const char* {
              if (a < 0) return "ValueError: math domain error";
              *result = std::sqrt(a);
              return nullptr;
            });
}

}  // namespace mica
