// What builtins ask of objects: their types, their addresses, and what copies
// of them are made of.

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/builtin_calls.h"
#include "python/capture/watch/call_facts.h"
#include "python/interpreter/interpreter.h"

namespace mica {

void BuiltinCalls::AskTypes(const BuiltinCall& call) {
  absl::Span<PyObject* const> args = call.all;
  const std::string name = CallableName(call.callable);
  // What a tuple holds is asked for if it is one of classes.
  if (name == "builtins.isinstance" && args.size() == 2 &&
      PyTuple_Check(args[0])) {
    parts_.objects.TouchType(Py_TYPE(args[0]));
    parts_.objects.TouchClassOf(args[0]);
    args = args.subspan(1);
  }
  parts_.objects.TouchClasses(args, absl::StartsWith(name, "torch."));
}

void BuiltinCalls::TakeAddress(const BuiltinCall& call) {
  const bool are_known = parts_.numbers.ShareAll(call.args);
  if (call.all.empty()) return;
  PyObject* object = call.all[0];
  if (are_known && (IsConstant(object) || PyType_Check(object) ||
                    (IsOld(object) && !IsInput(object)))) {
    return;
  }
  parts_.identity.TakeAddress(object);
}

void BuiltinCalls::Reduce(const BuiltinCall& call) {
  if (call.all.size() != 2) return RefuseCall(call.callable);
  PyObject* object = call.all[0];
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* reduce = Interned("__reduce__");
  static PyObject* names = Interned("__slotnames__");
  PyObject* method = _PyType_Lookup(type, reduce);
  PyObject* base =
      PyDict_GetItemWithError(TypeDict(&PyBaseObject_Type), reduce);
  if (method != base) {  // Called instead: followed, or in the table.
    const bool is_python = method == nullptr || PyFunction_Check(method);
    if (!is_python && KindOfBuiltin(method) != CallKind::kPure) {
      return RefuseCall(method);
    }
    // One in C gives what the object holds.
    if (!is_python) parts_.objects.Touch(object);
    return parts_.objects.TouchType(type);
  }
  if (!IsPythonClass(type) || SolidBase(type) != &PyBaseObject_Type ||
      HasSlots(type)) {
    return RefuseCall(call.callable);
  }
  // CPython keeps here, at the first such call, that there are no slots.
  if (PyDict_GetItemWithError(TypeDict(type), names) == nullptr) {
    const PyRef none = PyRef::Steal(PyList_New(0));
    if (!none || PyObject_SetAttr(reinterpret_cast<PyObject*>(type), names,
                                  none.get()) != 0) {
      PyErr_Clear();
    }
  }
  static PyObject* dict = Interned("__dict__");
  parts_.attributes.Read(object, dict);
}

}  // namespace mica
