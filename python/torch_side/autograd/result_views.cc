#include "python/torch_side/autograd/result_views.h"

// Before the others: torch's own order of Python.h and these.
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <exception>

#include "python/torch_side/autograd/node_facts.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {

bool IsShownByTorch(PyObject* view, PyObject* base) {
  const auto node_of = [](PyObject* tensor) {
    return torch::autograd::impl::gradient_edge(THPVariable_Unpack(tensor))
        .function.get();
  };
  const torch::autograd::Node* end = node_of(base);
  const torch::autograd::Node* node = node_of(view);
  while (node != nullptr && node != end) {
    if (IsFunctionInPython(*node)) return false;
    node =
        node->num_outputs() == 0 ? nullptr : node->next_edge(0).function.get();
  }
  return node != nullptr;
}

void ResultViews::SetWrites(absl::Span<const PyRef> results,
                            absl::Span<const int64_t> more,
                            Counts counts) const {
  for (const Writes& one : writes_) {
    if (counts == Counts::kKnown && !one.is_own) continue;
    c10::TensorImpl* impl =
        THPVariable_Unpack(results[one.result].get()).unsafeGetTensorImpl();
    if (!impl->version_counter().enabled()) continue;
    const auto result = static_cast<size_t>(one.result);
    const int64_t count = one.count + (result < more.size() ? more[result] : 0);
    if (one.is_own) {
      impl->set_version_counter(
          c10::VariableVersion(static_cast<uint32_t>(count)));
    } else {
      c10::VariableVersion shared = impl->version_counter();
      shared.set_version(count);
    }
  }
}

bool ResultViews::MakeViews(absl::Span<PyObject* const> inputs,
                            std::vector<PyRef>* results) const {
  try {
    for (const View& view : views_) {
      PyObject* base = view.root >= 0    ? (*results)[view.root].get()
                       : view.input >= 0 ? inputs[view.input]
                                         : view.tensor;
      PyRef& result = (*results)[view.result];
      result = ViewOf(base, result.get(), view.creation, view.is_tracked);
      if (!view.node.empty()) RenameNode(result.get(), view.node, view.output);
    }
    return true;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return false;
  }
}

}  // namespace mica
