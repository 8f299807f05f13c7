#include <Python.h>
// Before the others: torch's own order of Python.h and these.
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_function.h>

#include <string>
#include <typeinfo>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/autograd/node_facts.h"

namespace mica {
namespace {

using torch::autograd::Node;

enum class Saved { kNothing, kTensors, kUnreadable };

// What an attribute of a node's is, one that autograd may have saved.
Saved SavedAs(PyObject* node, const std::string& name) {
  const PyRef saved = PyRef::Steal(PyObject_GetAttrString(node, name.c_str()));
  if (!saved) {  // Released, or written since.
    PyErr_Clear();
    return Saved::kUnreadable;
  }
  if (!PyTuple_Check(saved.get())) {
    return saved.get() == Py_None ? Saved::kNothing : Saved::kTensors;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(saved.get()); ++i) {
    if (PyTuple_GET_ITEM(saved.get(), i) != Py_None) return Saved::kTensors;
  }
  return Saved::kNothing;
}

// Whether one of a node's attributes `_saved_x` is one of those: it has an
// attribute `_raw_saved_x` for each tensor that it may save.
bool HasSaved(Node* node, absl::FunctionRef<bool(Saved)> is_one) {
  const PyRef object =
      PyRef::Steal(torch::autograd::functionToPyObject(node->getptr()));
  if (!object) {
    PyErr_Clear();
    return true;
  }
  const PyGetSetDef* attribute = Py_TYPE(object.get())->tp_getset;
  for (; attribute != nullptr && attribute->name != nullptr; ++attribute) {
    absl::string_view name = attribute->name;
    if (!absl::ConsumePrefix(&name, "_raw")) continue;
    if (is_one(SavedAs(object.get(), std::string(name)))) return true;
  }
  return false;
}

// Whether a node has lists of tensors that it saved, for which there is no
// attribute: those of torch._foreach_*() have, but for these.
bool HasSavedLists(const Node& node) {
  constexpr absl::string_view kNone[] = {"Ceil",  "Clone",      "Floor", "Frac",
                                         "Neg",   "LerpScalar", "Round", "Sign",
                                         "Trunc", "Zero"};
  const std::string name = node.name();
  absl::string_view word = name;
  if (!absl::ConsumePrefix(&word, "Foreach")) return false;
  const std::string op =
      absl::StrReplaceAll(word, {{"Backward0", ""}, {"Backward1", ""}});
  return !absl::c_linear_search(kNone, op);
}

const THPFunction& InPython(const Node& node) {
  return *reinterpret_cast<const THPFunction*>(
      static_cast<const torch::autograd::PyNode&>(node).pyobj());
}

}  // namespace

// By name: torch keeps the type's description to itself.
bool IsFunctionInPython(const Node& node) {
  return absl::string_view(typeid(node).name()) == "N5torch8autograd6PyNodeE";
}

bool SeesAbsence(const Node& node) { return !InPython(node).materialize_grads; }

bool HasHooks(Node& node) {
  return !(node.pre_hooks().empty() && node.post_hooks().empty() &&
           node.tensor_pre_hooks().empty() &&
           node.retains_grad_hooks().empty()) ||
         node.tensor_post_acc_grad_hooks() != nullptr;
}

bool IsLeaf(const Node& node) {
  return dynamic_cast<const torch::autograd::AccumulateGrad*>(&node) != nullptr;
}

bool IsUsedUpByPass(Node* node) {
  // Such a node lets go of the one inside it, whatever that has saved.
  if (dynamic_cast<torch::autograd::CopySlices*>(node) != nullptr) return true;
  if (IsFunctionInPython(*node)) return false;
  return HasSavedLists(*node) ||
         HasSaved(node, [](Saved saved) { return saved != Saved::kNothing; });
}

bool HasReleasedTensors(Node* node, const SavedReads& reads) {
  if (auto* copy = dynamic_cast<torch::autograd::CopySlices*>(node)) {
    return copy->fn == nullptr;
  }
  if (IsFunctionInPython(*node)) {
    return reads.Has(*node) && InPython(*node).has_freed_buffers;
  }
  return HasSaved(node,
                  [](Saved saved) { return saved == Saved::kUnreadable; });
}

void AddGradient(const at::Tensor& gradient, at::Tensor* sum) {
  if (!gradient.defined()) return;
  *sum = sum->defined() ? *sum + gradient : gradient;
}

void AddEntries(const std::vector<bool>& from, std::vector<bool>* to) {
  if (to->size() < from.size()) to->resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i]) (*to)[i] = true;
  }
}

at::Tensor OnesLaidOutAs(const at::Tensor& like) {
  if (like.is_non_overlapping_and_dense()) {
    return at::empty_strided(like.sizes(), like.strides(), like.options())
        .fill_(1);
  }
  int64_t extent = like.numel() == 0 ? 0 : 1;
  for (int64_t i = 0; i < like.dim() && extent > 0; ++i) {
    extent += (like.size(i) - 1) * like.stride(i);
  }
  return at::ones({extent}, like.options())
      .as_strided(like.sizes(), like.strides(), 0);
}

}  // namespace mica
