#include "python/capture/values/unread.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// Looks through what an object holds.
class Search {
 public:
  explicit Search(bool minds_all) : minds_all_(minds_all) {}

  bool MayDie(PyObject* object, int depth) {
    constexpr int kMaxDepth = 16;
    constexpr size_t kMaxObjects = 4096;
    PyTypeObject* type = Py_TYPE(object);
    if (minds_all_ && PyType_SUPPORTS_WEAKREFS(type) &&
        *PyObject_GET_WEAKREFS_LISTPTR(object) != nullptr &&
        !PyType_Check(object)) {
      return false;
    }
    if (IsTensor(object)) return true;
    if (IsGenerator(object)) return !IsSuspendedGenerator(object);
    if (IsFinalized(type)) return false;
    if (PyType_Check(object) || PyModule_Check(object)) return true;
    if (!PyObject_IS_GC(object) || !seen_.insert(object).second) return true;
    if (depth >= kMaxDepth || seen_.size() >= kMaxObjects) return false;
    return HoldsNothing(object, depth + 1);
  }

 private:
  bool IsFinalized(PyTypeObject* type) const {
    if (type->tp_finalize == nullptr && type->tp_del == nullptr) return false;
    if (minds_all_) return true;
    PyRef method = PyRef::Steal(
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__del__"));
    if (!method) PyErr_Clear();
    return method && PyFunction_Check(method.get());
  }

  bool HoldsNothing(PyObject* object, int depth) {
    if (PyTuple_Check(object) || PyList_Check(object)) {
      PyObject** items = PySequence_Fast_ITEMS(object);
      const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
      for (Py_ssize_t i = 0; i < count; ++i) {
        if (!MayDie(items[i], depth)) return false;
      }
    }
    if (PyDict_Check(object) && !MayItemsDie(object, depth)) return false;
    if (PyCell_Check(object) && PyCell_GET(object) != nullptr) {
      return MayDie(PyCell_GET(object), depth);
    }
    if (PyFunction_Check(object)) {
      PyObject* closure = PyFunction_GET_CLOSURE(object);
      return closure == nullptr || MayDie(closure, depth);
    }
    if (PyMethod_Check(object)) {
      return MayDie(PyMethod_GET_SELF(object), depth);
    }
    PyObject* dict = InstanceDict(object);
    return dict == nullptr || MayItemsDie(dict, depth);
  }

  bool MayItemsDie(PyObject* dict, int depth) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(dict, &position, &key, &value)) {
      if (!MayDie(value, depth)) return false;
    }
    return true;
  }

  // Weak references and finalizers in C, too.
  const bool minds_all_;
  absl::flat_hash_set<PyObject*> seen_;
};

}  // namespace

bool MayDieEarly(PyObject* object) {
  return Search(/*minds_all=*/true).MayDie(object, 0);
}

bool RunsPythonAtDeath(PyObject* object) {
  return !Search(/*minds_all=*/false).MayDie(object, 0);
}

PyObject* FindOfOneRun(PyObject* arg) {
  if (PyCell_Check(arg)) return arg;  // A variable's own.
  if (Py_REFCNT(arg) != 1 || IsConstant(arg)) return nullptr;
  if (PyTuple_CheckExact(arg) || PyList_CheckExact(arg)) {
    PyObject** items = PySequence_Fast_ITEMS(arg);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(arg); ++i) {
      if (PyObject* found = FindOfOneRun(items[i])) return found;
    }
    return nullptr;
  }
  if (PyDict_CheckExact(arg)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(arg, &position, &key, &value)) {
      if (PyObject* found = FindOfOneRun(value)) return found;
    }
    return nullptr;
  }
  const bool is_taken_apart = PyTuple_Check(arg) || PyList_Check(arg) ||
                              PyDict_Check(arg) || PyAnySet_Check(arg) ||
                              TypeName(Py_TYPE(arg)) == "types.SimpleNamespace";
  const bool is_kept = !is_taken_apart && !IsTensor(arg) && !IsArray(arg) &&
                       !PyType_SUPPORTS_WEAKREFS(Py_TYPE(arg));
  return is_kept ? arg : nullptr;
}

PyRef WithoutUnread(PyObject* told) {
  if (!PyTuple_CheckExact(told) || PyTuple_GET_SIZE(told) < 2 ||
      PyTuple_GET_ITEM(told, 0) == Py_None) {
    return PyRef::Share(told);
  }
  PyObject* unread = PyTuple_GET_ITEM(told, 1);
  const Py_ssize_t num_unread = PyTuple_GET_SIZE(unread);
  if (num_unread == 0) return PyRef::Share(told);
  PyRef kept = PyRef::Steal(PyTuple_New(num_unread));
  PyRef copy = PyRef::Steal(PyTuple_New(PyTuple_GET_SIZE(told)));
  if (!kept || !copy) return PyRef();
  for (Py_ssize_t i = 0; i < num_unread; ++i) {
    PyObject* value = PyTuple_GET_ITEM(unread, i);
    PyObject* item = MayDieEarly(value) ? Py_None : value;
    PyTuple_SET_ITEM(kept.get(), i, PyRef::Share(item).release());
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(told); ++i) {
    PyObject* item = i == 1 ? kept.get() : PyTuple_GET_ITEM(told, i);
    PyTuple_SET_ITEM(copy.get(), i, PyRef::Share(item).release());
  }
  return copy;
}

}  // namespace mica
