#include "python/capture/known/stand_ins.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace mica {
namespace {

struct StandIn {
  PyTypeObject* type = nullptr;
  PyObject* (*inside)(PyObject*) = nullptr;
};
StandIn stand_in;

absl::flat_hash_map<PyObject*, PyObject*>& InPlace() {
  static auto& all = *new absl::flat_hash_map<PyObject*, PyObject*>;
  return all;
}

// By name: the module's name, and what is called.
absl::flat_hash_map<std::string, std::pair<std::string, PyObject*>>& ByName() {
  static auto& all =
      *new absl::flat_hash_map<std::string, std::pair<std::string, PyObject*>>;
  return all;
}

// What is called in place of a function that is known by its name.
PyRef FindByName(PyObject* function) {
  const auto* made = reinterpret_cast<const PyFunctionObject*>(function);
  const auto it = ByName().find(PyText(made->func_name));
  if (it == ByName().end() || made->func_module == nullptr ||
      PyText(made->func_module) != it->second.first) {
    return PyRef();
  }
  return PyRef::Share(it->second.second);
}

// Null if its function is called itself, or with a Python error set.
PyRef PartialInPlace(PyObject* partial) {
  const PyRef function = PyRef::Steal(PyObject_GetAttrString(partial, "func"));
  if (!function) return PyRef();
  const PyRef other = FindInPlace(function.get());
  if (!other) return PyRef();
  const PyRef args = PyRef::Steal(PyObject_GetAttrString(partial, "args"));
  const PyRef keywords =
      PyRef::Steal(PyObject_GetAttrString(partial, "keywords"));
  const PyRef first = PyRef::Steal(PyTuple_Pack(1, other.get()));
  if (!args || !keywords || !first) return PyRef();
  const PyRef all = PyRef::Steal(PySequence_Concat(first.get(), args.get()));
  if (!all) return PyRef();
  return PyRef::Steal(
      PyObject_Call(reinterpret_cast<PyObject*>(Py_TYPE(partial)), all.get(),
                    keywords.get()));
}

}  // namespace

void SetStandIn(PyTypeObject* type, PyObject* (*inside)(PyObject*)) {
  stand_in = {type, inside};
}

PyObject* FindInside(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  // Few types have their vectorcall there.
  if (stand_in.type == nullptr ||
      type->tp_vectorcall_offset != stand_in.type->tp_vectorcall_offset ||
      PyType_IsSubtype(type, stand_in.type) == 0) {
    return nullptr;
  }
  return stand_in.inside(object);
}

void CallInPlace(PyObject* function, PyObject* other) {
  Py_INCREF(function);
  Py_INCREF(other);
  InPlace()[function] = other;
}

void CallInPlaceOf(const std::string& module, const std::string& name,
                   PyObject* other) {
  Py_INCREF(other);
  ByName()[name] = {module, other};
}

PyRef FunctionInPython(const char* name, const char* module) {
  // Imported once: a program may replace __import__().
  static auto& modules = *new absl::flat_hash_map<std::string, PyObject*>;
  PyObject*& found = modules[module];
  if (found == nullptr) found = PyImport_ImportModule(module);
  PyRef function;
  if (found != nullptr) {
    function = PyRef::Steal(PyObject_GetAttrString(found, name));
  }
  if (!function) PyErr_Clear();
  return function;
}

PyRef FillingItems(PyObject* items) {
  static PyObject* type = FunctionInPython("FillingItems").release();
  if (type == nullptr) return PyRef();
  PyRef filling = PyRef::Steal(PyType_GenericAlloc(AsType(type), 0));
  if (!filling || PyObject_SetAttrString(filling.get(), "items", items) != 0) {
    PyErr_Clear();
    return PyRef();
  }
  return filling;
}

PyRef TakingItems(PyObject* tensor, PyObject* key) {
  static PyObject* type = FunctionInPython("TakingItems").release();
  if (type == nullptr) return PyRef();
  PyRef taking = PyRef::Steal(PyType_GenericAlloc(AsType(type), 0));
  if (!taking || PyObject_SetAttrString(taking.get(), "items", tensor) != 0 ||
      PyObject_SetAttrString(taking.get(), "key", key) != 0) {
    PyErr_Clear();
    return PyRef();
  }
  return taking;
}

PyRef Formatting(PyObject* text) {
  static PyObject* type =
      FunctionInPython("Formatting", "mica.formatting").release();
  if (type == nullptr) return PyRef();
  PyRef formatting = PyRef::Steal(PyType_GenericAlloc(AsType(type), 0));
  if (!formatting ||
      PyObject_SetAttrString(formatting.get(), "text", text) != 0) {
    PyErr_Clear();
    return PyRef();
  }
  return formatting;
}

PyRef FindInPlace(PyObject* callable) {
  if (PyFunction_Check(callable)) {
    const auto it = InPlace().find(callable);
    return it == InPlace().end() ? FindByName(callable)
                                 : PyRef::Share(it->second);
  }
  if (absl::string_view(Py_TYPE(callable)->tp_name) != "functools.partial") {
    return PyRef();
  }
  PyRef other = PartialInPlace(callable);
  if (!other) PyErr_Clear();
  return other;
}

}  // namespace mica
