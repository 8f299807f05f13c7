// Hooks on gradients.
//
// What a hook computes is on the tape as the rest of the backward pass is, and
// a hit calls none. So all that counts is which hooks there are when autograd's
// engine runs. Those that the run registers, it registers each time. An older
// leaf is guarded to have no others, or to have those that it had.

#include <vector>

#include "python/capture/known/purity.h"
#include "python/capture/watch/tensor_watch.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

constexpr const char* kHookAttributes[] = {"_backward_hooks",
                                           "_post_accumulate_grad_hooks"};

// The same, as Python's own strs.
const std::vector<PyObject*>& HookAttributes() {
  static const auto& names = *new std::vector<PyObject*>{
      Interned(kHookAttributes[0]), Interned(kHookAttributes[1])};
  return names;
}

// The dict of hooks, null for none.
PyRef HooksOf(PyObject* tensor, PyObject* name) {
  PyRef hooks = PyRef::Steal(PyObject_GetAttr(tensor, name));
  if (!hooks) PyErr_Clear();
  return hooks.get() == Py_None ? PyRef() : hooks;
}

bool IsEmptyDict(PyObject* object) {
  return PyDict_Check(object) && PyDict_GET_SIZE(object) == 0;
}

}  // namespace

bool TensorWatch::HasHooks(absl::string_view name) {
  return name == kHookAttributes[0] || name == kHookAttributes[1];
}

void TensorWatch::ReadHooks(PyObject* owner) {
  if (!IsOwn(owner) && !IsLeaf(owner)) {
    return Refuse("reads the hooks of a tensor that the run didn't make");
  }
  if (!IsOwn(owner)) TouchGradient(owner);
  bool has_older = false;
  for (PyObject* name : HookAttributes()) {
    const PyRef hooks = HooksOf(owner, name);
    if (!hooks) continue;
    if (!PyDict_Check(hooks.get())) {
      return Refuse("keeps hooks of a tensor in what is no dict");
    }
    hook_dicts_.push_back(hooks);
    if (IsOwn(owner)) continue;
    // None at all, or an empty dict: there are no hooks.
    if (IsOld(hooks.get()) && !handles_.HasOwnOnly(hooks.get())) {
      has_older = true;
    }
  }
  if (!has_older || refusal()) return;
  if (IsInput(owner)) return;  // Refused if it gets a gradient.
  for (PyObject* name : HookAttributes()) objects_.HoldAttribute(owner, name);
  noted_hooks_.insert(owner);
}

void TensorWatch::WriteHooks(PyObject* owner) {
  if (step_.stored == nullptr || !PyDict_Check(step_.stored)) {
    return Refuse("sets the hooks of a tensor to what is no dict");
  }
  if (IsOwn(owner)) return hook_dicts_.push_back(PyRef::Share(step_.stored));
  ReadHooks(owner);
  // A new dict where there was none, or an empty one: that nobody sees.
  if (refusal() || (!noted_hooks_.contains(owner) && !HasGradientHooks(owner) &&
                    IsEmptyDict(step_.stored) && !IsOld(step_.stored))) {
    return;
  }
  Refuse("sets the hooks of a tensor that the run didn't make",
         "use register_hook()");
}

void TensorWatch::TouchHooks() {
  for (const GradientWatch::Seen& seen : gradients_.seen()) {
    if (HasGradientHooks(seen.tensor.get())) ReadHooks(seen.tensor.get());
  }
  const std::vector<PyRef> dicts = hook_dicts_;
  for (const PyRef& dict : dicts) {
    objects_.Touch(dict.get());
    // Not the keys, which may be numbers that only this run has.
    const PyRef hooks = PyRef::Steal(PyDict_Values(dict.get()));
    if (!hooks) return PyErr_Clear();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
      objects_.Touch(PyList_GET_ITEM(hooks.get(), i), kDeep);
    }
  }
}

}  // namespace mica
