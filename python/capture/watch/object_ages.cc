#include "python/capture/watch/object_ages.h"

#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

void ObjectAges::MarkOld(PyObject* object, const std::string& path) {
  if (object == nullptr || IsConstant(object)) return;
  if (IsInput(object)) {
    state_inputs_.insert(object);
    return;
  }
  if (IsTensor(object) && !old_.contains(object)) {
    state_tensors_.push_back(PyRef::Share(object));
  }
  if (!old_.insert(object).second) return;
  Pin(object);
  names_.AddPath(object, path);
  names_.NameModule(object, path);
  if (PyTuple_Check(object)) MarkContents(object);
  if (PyWeakref_Check(object)) {
    PyObject* referent = PyWeakref_GET_OBJECT(object);
    if (IsInput(referent)) state_inputs_.insert(referent);
    if (referent != Py_None) weakly_held_.insert(referent);
  }
}

void ObjectAges::MarkContents(PyObject* container) {
  const std::string path = names_.PathOf(container);
  if (PyDict_Check(container)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    for (int i = 0; PyDict_Next(container, &position, &key, &value); ++i) {
      if (!IsConstant(key)) MarkOld(key, absl::StrCat("key ", i, " of ", path));
      if (!IsConstant(value)) MarkOld(value, names_.ItemPath(path, key));
    }
  } else if (PyTuple_Check(container) || PyList_Check(container)) {
    const bool is_tuple = PyTuple_Check(container);
    for (Py_ssize_t i = 0; i < Py_SIZE(container); ++i) {
      PyObject* item = is_tuple ? PyTuple_GET_ITEM(container, i)
                                : PyList_GET_ITEM(container, i);
      if (!IsConstant(item)) MarkOld(item, absl::StrCat(path, "[", i, "]"));
    }
  } else if (PyAnySet_Check(container)) {
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    while (NextItem(container, &position, &item)) {
      MarkOld(item, absl::StrCat("an item of ", path));
    }
  } else {
    PyRef items = PyRef::Steal(PySequence_List(container));
    if (!items) return PyErr_Clear();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      MarkOld(PyList_GET_ITEM(items.get(), i), absl::StrCat(path, "[", i, "]"));
    }
  }
}

bool ObjectAges::IsOld(PyObject* object) {
  if (old_.contains(object)) return true;
  if (IsInput(object)) return false;
  if (!PyObject_IS_GC(object)) return !young_.contains(object);
  if (!PyObject_GC_IsTracked(object)) {
    // An empty or atomic dict that nothing old led to, or a tuple: whoever
    // made it, it came from this run's own code.
    return !PyDict_Check(object) && !PyTuple_Check(object);
  }
  if (young_.contains(object)) return false;
  if (age_.Of(object) == AgeMark::Age::kYounger) {
    young_.insert(object);
    return false;
  }
  old_.insert(object);
  Pin(object);
  return true;
}

bool ObjectAges::IsFirst(PyObject* object, PyObject* key) {
  if (!seen_.insert({object, key}).second) return false;
  Pin(object);
  if (key != nullptr) Pin(key);
  return true;
}

absl::flat_hash_set<PyObject*> ObjectAges::OldContainers() const {
  absl::flat_hash_set<PyObject*> containers;
  for (PyObject* object : old_) {
    if (PyList_Check(object) || PyDict_Check(object) ||
        PyAnySet_Check(object) || IsPythonClass(Py_TYPE(object))) {
      containers.insert(object);
    }
  }
  return containers;
}

absl::flat_hash_set<PyObject*> ObjectAges::OthersThan(
    const absl::flat_hash_set<PyObject*>& objects) const {
  absl::flat_hash_set<PyTypeObject*> types;
  for (PyObject* object : objects) types.insert(Py_TYPE(object));
  absl::flat_hash_set<PyObject*> others;
  for (PyObject* object : old_) {
    if (types.contains(Py_TYPE(object))) others.insert(object);
  }
  others.insert(weakly_held_.begin(), weakly_held_.end());
  return others;
}

}  // namespace mica
