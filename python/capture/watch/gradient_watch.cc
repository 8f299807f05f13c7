#include "python/capture/watch/gradient_watch.h"

#include "python/torch_side/tensors/autograd_access.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

void GradientWatch::See(PyObject* tensor) {
  if (!IsLeaf(tensor)) return outer_.Add(tensor);
  if (RequiresGrad(tensor) || HasGrad(tensor)) Add(tensor);
}

void GradientWatch::Touch(PyObject* tensor) {
  if (!IsLeaf(tensor)) return See(tensor);
  seen_[Add(tensor)].is_touched = true;
}

void GradientWatch::GoBackFrom(absl::Span<PyObject* const> roots) {
  all_touched_ = true;
  for (PyObject* root : roots) {
    goes_outside_ =
        goes_outside_ || (IsTensor(root) && outer_.AreReachedFrom(root));
  }
}

size_t GradientWatch::Add(PyObject* leaf) {
  const auto [it, is_new] = index_.try_emplace(leaf, seen_.size());
  if (!is_new) return it->second;
  seen_.push_back({.tensor = PyRef::Share(leaf),
                   .before = GradOf(leaf),
                   .required_grad = RequiresGrad(leaf)});
  if (PyObject* before = seen_.back().before.get()) {
    gradients_.try_emplace(before, it->second);
  }
  return it->second;
}

}  // namespace mica
