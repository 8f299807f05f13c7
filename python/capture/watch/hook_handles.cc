#include "python/capture/watch/hook_handles.h"

#include "absl/strings/match.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

PyObject* HandleInit() {
  static PyObject* function =
      ResolveName("torch.utils.hooks.RemovableHandle.__init__").release();
  return function;
}

}  // namespace

void HookHandles::Call(PyObject* callable) {
  makes_handle_ = false;
  if (refusal() || callable == nullptr || HookHandleType() == nullptr) return;
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  // It isn't followed, so nobody would know of the number that it gives.
  if (callable == HandleInit()) return RefuseCall(callable);
  if (PyCFunction_Check(callable)) {
    const std::string name = CallableName(callable);
    makes_handle_ = absl::EndsWith(name, ".register_hook") ||
                    absl::EndsWith(name, ".register_prehook");
    return;
  }
  makes_handle_ = PyType_Check(callable) &&
                  PyType_IsSubtype(AsType(callable), HookHandleType());
}

void HookHandles::EndStep(PyObject* result) {
  if (!makes_handle_ || result == nullptr) return;
  makes_handle_ = false;
  if (!PyType_IsSubtype(Py_TYPE(result), HookHandleType())) return;
  static PyObject* name = Interned("id");
  PyObject* dict = InstanceDict(result);
  PyObject* id =
      dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
  if (id == nullptr || !PyLong_CheckExact(id)) {
    PyErr_Clear();
    return Refuse("makes a handle of a hook without a number");
  }
  // Small ints are one object each, which is elsewhere, too.
  const PyRef own = NewNumber(id);
  if (!own || PyDict_SetItem(dict, name, own.get()) != 0) {
    PyErr_Clear();
    return Refuse("no memory for a number");
  }
  values_.AddAddress(own.get());
  ids_.insert(own.get());
}

bool HookHandles::HasOwnOnly(PyObject* dict) const {
  for (const PyRef& key : KeysOf(dict)) {
    if (!IsId(key.get())) return false;
  }
  return true;
}

bool HookHandles::Moves(PyObject* callable,
                        absl::Span<PyObject* const> args) const {
  return args.size() > 1 && IsId(args[1]) && PyODict_Check(args[0]) &&
         absl::EndsWith(CallableName(callable), ".move_to_end");
}

}  // namespace mica
