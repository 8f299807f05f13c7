#include "python/torch_side/autograd/backward_use.h"

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
  Witness(std::shared_ptr<BackwardUse> use, int index,
          std::vector<int64_t> strides, uint32_t output)
      : use_(std::move(use)),
        index_(index),
        strides_(std::move(strides)),
        output_(output) {}

  variable_list operator()(const variable_list& gradients) override {
    if (const char* why = use_->WhyEager(gradients)) {
      use_->set_why_eager(why);
    } else if (output_ < gradients.size() && gradients[output_].defined()) {
      use_->NoteLayout(index_, strides_, gradients[output_]);
    }
    return gradients;
  }

 private:
  const std::shared_ptr<BackwardUse> use_;
  const int index_;
  const std::vector<int64_t> strides_;
  const uint32_t output_;  // Of the node: the result.
};

// How often a callable's records may become outdated.
constexpr int kMaxLayouts = 4;

}  // namespace

void BackwardUse::Watch(std::shared_ptr<BackwardUse> use, PyObject* result,
                        int index, std::vector<int64_t> strides,
                        uint64_t first_node) {
  const at::Tensor& tensor = THPVariable_Unpack(result);
  const auto& node = tensor.grad_fn();
  if (node == nullptr || node->sequence_nr() < first_node) return;
  node->add_pre_hook(std::make_unique<Witness>(
      std::move(use), index, std::move(strides), tensor.output_nr()));
}

void BackwardUse::NoteLayout(int index, absl::Span<const int64_t> recorded,
                             const at::Tensor& gradient) {
  if (!minds_layout_ || gradient.layout() != c10::kStrided ||
      !gradient.is_non_overlapping_and_dense()) {
    return;
  }
  bool is_other = false;
  for (size_t i = 0; i < recorded.size(); ++i) {
    const auto dim = static_cast<int64_t>(i);
    is_other = is_other ||
               (gradient.size(dim) > 1 && gradient.stride(dim) != recorded[i]);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_other || layouts_noted_ >= kMaxLayouts) return;
  layouts_[index] = {.sizes = gradient.sizes().vec(),
                     .strides = gradient.strides().vec()};
  ++layouts_noted_;
}

std::optional<std::vector<int64_t>> BackwardUse::LayoutOf(
    int index, absl::Span<const int64_t> sizes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = layouts_.find(index);
  if (known == layouts_.end() ||
      absl::MakeConstSpan(known->second.sizes) != sizes) {
    return std::nullopt;
  }
  return known->second.strides;
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
