#include "python/capture/values/sequences.h"

#include <utility>

#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// A new list; null with a Python error set.
PyRef ListOf(absl::Span<const PyRef> items) {
  PyRef list = PyRef::Steal(PyList_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; list && i < items.size(); ++i) {
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                    PyRef(items[i]).release());
  }
  return list;
}

}  // namespace

bool IsDeque(PyObject* object) {
  return DequeType() != nullptr && Py_IS_TYPE(object, DequeType());
}

Py_ssize_t BoundOf(PyObject* container) {
  if (!IsDeque(container)) return -1;
  static PyObject* word = PyUnicode_InternFromString("maxlen");
  const PyRef bound = PyRef::Steal(PyObject_GetAttr(container, word));
  const Py_ssize_t value = bound && PyLong_CheckExact(bound.get())
                               ? PyLong_AsSsize_t(bound.get())
                               : -1;
  PyErr_Clear();
  return value;
}

std::vector<PyRef> ItemsInOrder(PyObject* sequence) {
  std::vector<PyRef> items;
  items.reserve(static_cast<size_t>(Py_SIZE(sequence)));
  if (PyList_Check(sequence)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sequence); ++i) {
      items.push_back(PyRef::Share(PyList_GET_ITEM(sequence, i)));
    }
    return items;
  }
  const PyRef iterator = PyRef::Steal(Py_TYPE(sequence)->tp_iter(sequence));
  while (iterator) {
    PyRef item = PyRef::Steal(PyIter_Next(iterator.get()));
    if (!item) break;
    items.push_back(std::move(item));
  }
  PyErr_Clear();
  return items;
}

bool SetItemAt(PyObject* sequence, Py_ssize_t index, PyObject* item) {
  if (PyList_Check(sequence)) {
    return PyList_SetItem(sequence, index, PyRef::Share(item).release()) == 0;
  }
  return PySequence_SetItem(sequence, index, item) == 0;
}

bool PutItems(PyObject* sequence, absl::Span<const PyRef> items) {
  const PyRef list = ListOf(items);
  if (!list) return false;
  if (PyList_Check(sequence)) {
    return PyList_SetSlice(sequence, 0, PyList_GET_SIZE(sequence),
                           list.get()) == 0;
  }
  // The end of one may run code that looks into it: then it holds the others.
  const std::vector<PyRef> before = ItemsInOrder(sequence);
  static PyObject* clear = PyUnicode_InternFromString("clear");
  static PyObject* extend = PyUnicode_InternFromString("extend");
  return PyRef::Steal(PyObject_CallMethodNoArgs(sequence, clear)) &&
         PyRef::Steal(PyObject_CallMethodOneArg(sequence, extend, list.get()));
}

PyRef NewDeque(Py_ssize_t bound) {
  auto* type = reinterpret_cast<PyObject*>(DequeType());
  if (bound < 0) return PyRef::Steal(PyObject_CallNoArgs(type));
  return PyRef::Steal(PyObject_CallFunction(type, "()n", bound));
}

bool AppendTo(PyObject* deque, PyObject* item) {
  static PyObject* append = PyUnicode_InternFromString("append");
  return static_cast<bool>(
      PyRef::Steal(PyObject_CallMethodOneArg(deque, append, item)));
}

}  // namespace mica
