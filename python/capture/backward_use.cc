#include "python/capture/backward_use.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace mica {
namespace {

using torch::autograd::variable_list;

class Witness final : public torch::autograd::FunctionPreHook {
 public:
  explicit Witness(std::shared_ptr<BackwardUse> use) : use_(std::move(use)) {}

  variable_list operator()(const variable_list& gradients) override {
    if (const char* why = use_->WhyEager(gradients)) {
      use_->set_why_eager(why);
    }
    return gradients;
  }

 private:
  const std::shared_ptr<BackwardUse> use_;
};

}  // namespace

void BackwardUse::Watch(std::shared_ptr<BackwardUse> use, PyObject* result,
                        uint64_t first_node) {
  const auto& node = THPVariable_Unpack(result).grad_fn();
  if (node == nullptr || node->sequence_nr() < first_node) return;
  node->add_pre_hook(std::make_unique<Witness>(std::move(use)));
}

const char* BackwardUse::WhyEager(
    absl::Span<const at::Tensor> gradients) const {
  if (c10::GradMode::is_enabled()) return "gradients of gradients are taken";
  if (minds_autocast_ && at::autocast::is_autocast_enabled(at::kCPU)) {
    return "the backward pass runs under autocast";
  }
  const c10::DispatchKeySet batches{c10::DispatchKey::Batched,
                                    c10::DispatchKey::FuncTorchBatched};
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined() && gradient.key_set().has_any(batches)) {
      return "gradients are taken in batches, by torch.vmap";
    }
  }
  return nullptr;
}

}  // namespace mica
