#include "python/interpreter/handing_on.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// Iterators nested deeper than this are taken to look at items.
constexpr int kMaxDepth = 16;

// An instance of a class in Python, whose operators are Python's own code.
bool IsPlainInstance(PyObject* object) {
  return SolidBase(Py_TYPE(object)) == &PyBaseObject_Type;
}

bool IsPlainOperand(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyLong_Type || type == &PyFloat_Type ||
         type == &PyBool_Type || type == &PyComplex_Type || object == Py_None ||
         IsPlainInstance(object);
}

// Iterators in C that give the items of others as they are, or what functions
// return.
bool IsHandingIterator(PyTypeObject* type) {
  const absl::string_view name = type->tp_name;
  for (const absl::string_view known :
       {"iterator", "zip", "map", "enumerate", "reversed", "itertools.chain",
        "itertools.starmap", "itertools.repeat", "itertools.cycle",
        "itertools.islice", "itertools.zip_longest", "itertools.pairwise",
        "itertools._tee", "itertools._tee_dataobject"}) {
    if (name == known) return true;
  }
  // Of containers: "list_iterator", "dict_keyiterator". The one of iter(f, end)
  // compares.
  return type != &PyCallIter_Type && absl::EndsWith(name, "iterator") &&
         (!absl::StrContains(name, '.') ||
          absl::StartsWith(name, "_collections."));
}

std::vector<PyObject*> HeldBy(PyObject* object) {
  std::vector<PyObject*> held;
  const auto add = [](PyObject* item, void* to) {
    static_cast<std::vector<PyObject*>*>(to)->push_back(item);
    return 0;
  };
  Py_TYPE(object)->tp_traverse(object, add, &held);
  return held;
}

bool HandsOn(PyObject* object, absl::FunctionRef<bool(PyObject*)> is_followed,
             int depth) {
  if (depth > kMaxDepth) return false;
  PyTypeObject* type = Py_TYPE(object);
  const bool is_tuple = PyTuple_CheckExact(object) && depth > 0;
  if ((!PyIter_Check(object) && !is_tuple) || IsGenerator(object) ||
      IsPlainInstance(object) || !PyObject_IS_GC(object)) {
    return true;
  }
  if (!is_tuple && !IsHandingIterator(type)) return false;
  for (PyObject* held : HeldBy(object)) {
    // A tuple, unless it is the iterated one, holds a zip's iterators.
    if (PyTuple_CheckExact(held) &&
        absl::string_view(type->tp_name) == "tuple_iterator") {
      continue;
    }
    if (!PyIter_Check(held) && !is_tuple && PyCallable_Check(held) &&
        !is_followed(held)) {
      return false;
    }
    if (!HandsOn(held, is_followed, depth + 1)) return false;
  }
  return true;
}

}  // namespace

bool HasPythonMethod(PyObject* object, PyObject* name) {
  PyObject* method = _PyType_Lookup(Py_TYPE(object), name);
  return method != nullptr && PyFunction_Check(method);
}

bool HandsOnString(PyObject* object) {
  static PyObject* str = Interned("__str__");
  if (HasPythonMethod(object, str)) return true;
  // object.__str__() gives what __repr__() does.
  return HasPythonMethod(object, Interned("__repr__")) &&
         Py_TYPE(object)->tp_str == PyBaseObject_Type.tp_str;
}

bool HandsOnText(PyObject* object, bool has_spec) {
  static PyObject* format = Interned("__format__");
  if (HasPythonMethod(object, format)) return true;
  // object.__format__() gives what __str__() does.
  return !has_spec && HandsOnString(object) &&
         _PyType_Lookup(Py_TYPE(object), format) ==
             _PyType_Lookup(&PyBaseObject_Type, format);
}

bool HandsOnTextBy(PyObject* callable, PyObject* object) {
  static PyObject* builtins = PyEval_GetBuiltins();
  static PyObject* repr = PyDict_GetItemString(builtins, "repr");
  static PyObject* format = PyDict_GetItemString(builtins, "format");
  if (callable == reinterpret_cast<PyObject*>(&PyUnicode_Type)) {
    return HandsOnString(object);
  }
  if (callable == format) return HandsOnText(object, /*has_spec=*/false);
  return callable == repr && HasPythonMethod(object, Interned("__repr__"));
}

bool HandsOnResult(PyObject* a, PyObject* b) {
  return IsPlainOperand(a) && IsPlainOperand(b);
}

bool HandsOnItems(PyObject* object,
                  absl::FunctionRef<bool(PyObject*)> is_followed) {
  return HandsOn(object, is_followed, 0);
}

}  // namespace mica
