#include "python/capture/watch/object_kinds.h"

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/generators.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

bool IsContainer(PyObject* object) {
  return PyDict_Check(object) || PyList_Check(object) ||
         PyTuple_Check(object) || PyAnySet_Check(object) ||
         (DequeType() != nullptr && PyObject_TypeCheck(object, DequeType()));
}

bool GivesItems(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyDictKeys_Type || type == &PyDictValues_Type ||
      type == &PyDictItems_Type) {
    return true;
  }
  return PyIter_Check(object) && PyObject_IS_GC(object) &&
         type->tp_traverse != nullptr && !IsPythonClass(type) &&
         !IsGenerator(object);
}

std::vector<PyRef> HeldBy(PyObject* object) {
  std::vector<PyRef> held;
  if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(object, &position, &key, &value)) {
      held.push_back(PyRef::Share(key));
      held.push_back(PyRef::Share(value));
    }
    return held;
  }
  if (PyList_Check(object) || PyTuple_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
      held.push_back(PyRef::Share(PySequence_Fast_GET_ITEM(object, i)));
    }
    return held;
  }
  const auto add = [](PyObject* item, void* to) {
    static_cast<std::vector<PyRef>*>(to)->push_back(PyRef::Share(item));
    return 0;
  };
  Py_TYPE(object)->tp_traverse(object, add, &held);
  return held;
}

std::vector<PyObject*> ItemsOrKeys(PyObject* container) {
  std::vector<PyObject*> items;
  PyObject* item = nullptr;
  Py_ssize_t position = 0;
  if (PyDict_Check(container)) {
    PyObject* value = nullptr;
    while (PyDict_Next(container, &position, &item, &value)) {
      items.push_back(item);
    }
  } else if (PyAnySet_Check(container)) {
    while (NextItem(container, &position, &item)) {
      items.push_back(item);
    }
  } else {
    PyObject** first = PySequence_Fast_ITEMS(container);
    items.assign(first, first + PySequence_Fast_GET_SIZE(container));
  }
  return items;
}

bool HoldsTensors(PyObject* sequence, int depth) {
  constexpr int kMaxDepth = 64;
  if (IsTensor(sequence) || depth > kMaxDepth) return true;
  if (!IsContainer(sequence) || PyDict_Check(sequence)) {
    return PySequence_Check(sequence) != 0 && !IsConstant(sequence) &&
           PyObject_CheckBuffer(sequence) == 0 && !PyRange_Check(sequence);
  }
  return absl::c_any_of(HeldBy(sequence), [depth](const PyRef& held) {
    return HoldsTensors(held.get(), depth + 1);
  });
}

bool HoldsListsOfTensors(PyObject* index) {
  return absl::c_any_of(HeldBy(index), [](const PyRef& held) {
    return !IsTensor(held.get()) && HoldsTensors(held.get());
  });
}

bool IsKeptInC(PyObject* descriptor) {
  return descriptor != nullptr && (Py_TYPE(descriptor) == &PyGetSetDescr_Type ||
                                   Py_TYPE(descriptor) == &PyMemberDescr_Type);
}

bool IsInert(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyTuple_Type) return IsConstant(object);
  return IsConstant(object) || type == &PyCode_Type ||
         type == &PyFrozenSet_Type || IsImmutableType(type);
}

bool IsLruCache(PyObject* object) {
  return absl::string_view(Py_TYPE(object)->tp_name) ==
         "functools._lru_cache_wrapper";
}

}  // namespace mica
