#include "python/capture/values/dicts.h"

#include <utility>

#include "python/interpreter/interpreter.h"

namespace mica {

std::vector<PyRef> KeysOf(PyObject* dict) {
  std::vector<PyRef> keys;
  if (PyODict_Check(dict)) {
    PyRef iterator = PyRef::Steal(PyODict_Type.tp_iter(dict));
    while (iterator) {
      PyRef key = PyRef::Steal(PyIter_Next(iterator.get()));
      if (!key) break;
      keys.push_back(std::move(key));
    }
    PyErr_Clear();
    return keys;
  }
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    keys.push_back(PyRef::Share(key));
  }
  return keys;
}

std::vector<PyRef> ItemsOf(PyObject* set) {
  std::vector<PyRef> items;
  Py_ssize_t position = 0;
  PyObject* item = nullptr;
  while (NextItem(set, &position, &item)) {
    items.push_back(PyRef::Share(item));
  }
  return items;
}

PyRef FactoryOf(PyObject* dict) {
  if (!Py_IS_TYPE(dict, DefaultDictType())) return PyRef();
  static PyObject* name = Interned("default_factory");
  PyRef factory = PyRef::Steal(PyObject_GetAttr(dict, name));
  if (!factory) PyErr_Clear();
  return factory;
}

bool HasPlainItems(PyObject* object) {
  if (PyDict_CheckExact(object)) return true;
  if (!PyDict_Check(object)) return false;
  PyTypeObject* base = PyODict_Check(object) ? &PyODict_Type : &PyDict_Type;
  for (const char* name : {"__getitem__", "__setitem__"}) {
    const PyRef word = PyRef::Steal(PyUnicode_InternFromString(name));
    if (_PyType_Lookup(Py_TYPE(object), word.get()) !=
        _PyType_Lookup(base, word.get())) {
      return false;
    }
  }
  return true;
}

}  // namespace mica
