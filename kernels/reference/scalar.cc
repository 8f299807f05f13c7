// Host scalars: a step is a load or two, one operation and a store.

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/reference/element.h"
#include "kernels/reference/host_arithmetic.h"
#include "kernels/reference/reference.h"

namespace mica {
namespace {

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
  HostFunction fn = nullptr;
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

void AddScalar(KernelRegistry& registry, absl::string_view op,
               HostFunction fn) {
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

bool LaunchSize(const void* state, void* const* args, LaunchContext&) {
  if (args[0] != nullptr) {
    *static_cast<int64_t*>(args[0]) = *static_cast<const int64_t*>(state);
  }
  return true;
}

void AddSize(KernelRegistry& registry) {
  AddReference(
      registry, "mica.size", [](const KernelRequest& request) -> Verdict {
        auto size = std::make_shared<int64_t>(request.Int(0));
        return Prepared{.launch = LaunchSize, .state = std::move(size)};
      });
}

}  // namespace

void RegisterReferenceScalars(KernelRegistry& registry) {
  AddSize(registry);
  for (const HostOp& op : HostOps()) AddScalar(registry, op.name, op.compute);
}

}  // namespace mica
