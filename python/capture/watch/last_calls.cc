#include "python/capture/watch/last_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/object_kinds.h"
#include "python/interpreter/frame_hook.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// What a name stands for that is bound once: code, or an object of a class of
// Python's, whose contents are read by themselves.
bool IsBoundOnce(PyObject* value) {
  if (value == nullptr) return true;  // Raises, or comes from a base.
  PyTypeObject* type = Py_TYPE(value);
  return PyFunction_Check(value) || PyCFunction_Check(value) ||
         PyType_Check(value) || PyModule_Check(value) ||
         PyMethod_Check(value) || type == &PyMethodDescr_Type ||
         type == &PyStaticMethod_Type || type == &PyClassMethod_Type ||
         (IsPythonClass(type) && !IsTensor(value) && !IsConstant(value));
}

// One of Python's own modules, whose constants stay.
bool IsLibrary(PyObject* module) {
  static PyObject* names = PySys_GetObject("stdlib_module_names");
  const PyRef name = PyRef::Steal(PyModule_GetNameObject(module));
  if (!name || names == nullptr) {
    PyErr_Clear();
    return false;
  }
  return PySequence_Contains(names, name.get()) == 1;
}

}  // namespace

void LastCalls::Begin(std::string title) {
  first_ = {.title = std::move(title),
            .at = CurrentUserLine(),
            .places = SitesBelow(caller()),
            .num_calls = recorder_.NumCalls()};
  if (HasHandlerBelow(caller())) RefuseFirst("where an error is handled");
}

void LastCalls::RefuseFirst(const std::string& why) {
  if (refusal() || !first_.has_value()) return;
  const UserCall call = *std::exchange(first_, std::nullopt);
  Refuse(absl::StrCat("calls ", call.title, ", which runs code of the user's, ",
                      why),
         "call it last, or outside the compiled function");
  refusal().at = call.at;
  refusal().places = {call.places};
}

void LastCalls::NoteUse(PyObject* object) {
  if (!first_.has_value() || refusal() || object == nullptr) return;
  if (!IsOld(object) && !IsInput(object)) return;
  RefuseFirst(absl::StrCat("and goes on to use ", PathOf(object)));
}

void LastCalls::NoteRead(PyObject* value, const std::string& path) {
  if (!first_.has_value() || refusal() || IsBoundOnce(value)) return;
  RefuseFirst(absl::StrCat("and goes on to read ", path));
}

void LastCalls::NoteGlobal(PyObject* globals, PyObject* builtins,
                           PyObject* name) {
  if (!first_.has_value() || refusal()) return;
  PyObject* value = PyDict_GetItemWithError(globals, name);
  if (value == nullptr && builtins != nullptr) {
    value = PyDict_GetItemWithError(builtins, name);
  }
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  NoteRead(value, PyText(name));
}

void LastCalls::NoteAttribute(PyObject* owner, PyObject* name) {
  if (!first_.has_value() || refusal()) return;
  PyObject* value = nullptr;
  if (PyModule_Check(owner)) {
    value = PyDict_GetItemWithError(PyModule_GetDict(owner), name);
    if (value != nullptr && IsConstant(value) && IsLibrary(owner)) return;
  } else if (PyType_Check(owner)) {
    value = _PyType_Lookup(AsType(owner), name);
  } else if (!IsOld(owner) && !IsInput(owner)) {
    return;
  } else if (IsTensor(owner)) {
    return NoteUse(owner);
  } else {
    PyObject* dict = InstanceDict(owner);
    if (dict != nullptr) value = PyDict_GetItemWithError(dict, name);
    if (value == nullptr) value = _PyType_Lookup(Py_TYPE(owner), name);
  }
  NoteRead(value, absl::StrCat(PathOf(owner), ".", PyText(name)));
}

void LastCalls::NoteTouch(PyObject* object) {
  if (!first_.has_value() || refusal() || object == nullptr) return;
  if (GivesItems(object)) return RefuseFirst("in a loop");
  if (IsTensor(object) || IsContainer(object) || IsArray(object)) {
    if (!IsConstant(object)) NoteUse(object);
  }
}

}  // namespace mica
