#include "tests/property/runnable.h"

#include <cstring>
#include <utility>

#include "executor/binding/binding.h"
#include "framework/base/status.h"
#include "framework/device/transfer.h"
#include "ops/all.h"
#include "tools/fill.h"

namespace mica {

namespace {

absl::StatusOr<Tensor> Placed(Tensor tensor,
                              const std::shared_ptr<Device>& device) {
  if (device == nullptr) return tensor;
  return CopyToDevice(tensor.view(), device);
}

}  // namespace

absl::StatusOr<Runnable> MakeRunnable(std::shared_ptr<const Plan> plan,
                                      JobOptions options,
                                      std::shared_ptr<Device> device) {
  Runnable runnable;
  const Program& program = plan->program();
  std::vector<TensorView> variables;
  uint64_t seed = 0;
  for (ValueId id : program.inputs()) {
    MICA_ASSIGN_OR_RETURN(Tensor tensor,
                          RandomTensor(program.type(id), ++seed));
    MICA_ASSIGN_OR_RETURN(tensor, Placed(std::move(tensor), device));
    runnable.inputs.push_back(std::move(tensor));
  }
  for (const Variable& variable : program.variables()) {
    MICA_ASSIGN_OR_RETURN(Tensor tensor,
                          RandomTensor(program.type(variable.value), ++seed));
    MICA_ASSIGN_OR_RETURN(tensor, Placed(std::move(tensor), device));
    variables.push_back(tensor.view());
    runnable.variables.push_back(std::move(tensor));
  }
  MICA_ASSIGN_OR_RETURN(
      auto binding,
      Binding::Create(plan, variables, /*source=*/nullptr, device));
  MICA_ASSIGN_OR_RETURN(runnable.job,
                        Job::Create(std::move(binding), std::move(options)));
  for (size_t i = 0; i < program.inputs().size(); ++i) {
    runnable.job->SetInput(static_cast<int>(i), runnable.inputs[i].data());
  }
  for (size_t i = 0; i < program.outputs().size(); ++i) {
    MICA_ASSIGN_OR_RETURN(
        Tensor tensor,
        Tensor::Allocate(plan->output_type(static_cast<int>(i))));
    std::memset(tensor.data(), 0xff, tensor.type().extent_bytes());
    MICA_ASSIGN_OR_RETURN(tensor, Placed(std::move(tensor), device));
    runnable.job->SetOutput(static_cast<int>(i), tensor.data());
    runnable.outputs.push_back(std::move(tensor));
  }
  return runnable;
}

absl::StatusOr<Runnable> OnHost(const Runnable& runnable) {
  Runnable copy;
  const std::pair<const std::vector<Tensor>*, std::vector<Tensor>*> lists[] = {
      {&runnable.inputs, &copy.inputs},
      {&runnable.variables, &copy.variables},
      {&runnable.outputs, &copy.outputs}};
  for (const auto& [from, to] : lists) {
    for (const Tensor& tensor : *from) {
      MICA_ASSIGN_OR_RETURN(Tensor on_host, CopyToHost(tensor));
      to->push_back(std::move(on_host));
    }
  }
  return copy;
}

absl::StatusOr<Runnable> PlanAndRun(const Program& program,
                                    const KernelRegistry& kernels,
                                    const PlanOptions& options) {
  MICA_ASSIGN_OR_RETURN(auto plan,
                        Plan::Build(program, AllOps(), kernels, options));
  MICA_ASSIGN_OR_RETURN(Runnable runnable, MakeRunnable(std::move(plan)));
  MICA_RETURN_IF_ERROR(runnable.job->Run());
  return runnable;
}

bool SameBytes(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t bytes = a[i].type().extent_bytes();
    if (bytes != b[i].type().extent_bytes()) return false;
    if (std::memcmp(a[i].data(), b[i].data(), bytes) != 0) return false;
  }
  return true;
}

bool SameBytes(const Runnable& a, const Runnable& b) {
  return SameBytes(a.outputs, b.outputs) && SameBytes(a.inputs, b.inputs) &&
         SameBytes(a.variables, b.variables);
}

}  // namespace mica
