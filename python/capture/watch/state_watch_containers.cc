// What the program reads of containers, and of iterators over them.

#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/state_watch.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// Containers nested deeper than this aren't followed.
constexpr int kMaxDepth = 16;

// The items of a container, or what an iterator holds.
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

}  // namespace

bool StateWatch::IsContainer(PyObject* object) {
  return PyDict_Check(object) || PyList_Check(object) ||
         PyTuple_Check(object) || PyAnySet_Check(object) ||
         (DequeType() != nullptr && PyObject_TypeCheck(object, DequeType()));
}

bool StateWatch::GivesItems(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyDictKeys_Type || type == &PyDictValues_Type ||
      type == &PyDictItems_Type) {
    return true;
  }
  return PyIter_Check(object) && PyObject_IS_GC(object) &&
         type->tp_traverse != nullptr && !IsPythonClass(type) &&
         !IsGenerator(object);
}

void StateWatch::MarkContents(PyObject* container) {
  const std::string path = PathOf(container);
  if (PyDict_Check(container)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    for (int i = 0; PyDict_Next(container, &position, &key, &value); ++i) {
      if (!IsConstant(key)) MarkOld(key, absl::StrCat("key ", i, " of ", path));
      if (!IsConstant(value)) MarkOld(value, ItemPath(path, key));
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
    Py_hash_t hash = 0;
    while (_PySet_NextEntry(container, &position, &item, &hash)) {
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

absl::flat_hash_set<PyObject*> StateWatch::OldContainers() const {
  absl::flat_hash_set<PyObject*> containers;
  for (PyObject* object : old_) {
    if (PyList_Check(object) || PyDict_Check(object) ||
        PyAnySet_Check(object) || IsPythonClass(Py_TYPE(object))) {
      containers.insert(object);
    }
  }
  return containers;
}

void StateWatch::TouchSources(PyObject* iterator, int depth) {
  if (depth > kMaxDepth) return Refuse("nests iterators too deeply");
  // Held on to, as what is looked at may run Python code.
  for (const PyRef& held : HeldBy(iterator)) TouchObject(held.get(), depth + 1);
}

void StateWatch::Inspect(PyObject* object) {
  values_.MarkExactDeep(object);
  if (!refusal_ && object != nullptr) LookInto(object, kShallowDepth);
}

void StateWatch::LookInto(PyObject* object, int depth) {
  if (refusal_) return;
  if (IsConstant(object)) return values_.MarkExactDeep(object);
  Identify(object);
  const bool gives_items = GivesItems(object) && !IsOld(object);
  // It says itself what it is equal to.
  if (!gives_items && !IsContainer(object)) {
    TouchType(Py_TYPE(object));
    return TouchClassOf(object);
  }
  if (depth > kMaxDepth) return Refuse("nests containers too deeply");
  if (!gives_items) TouchContainer(object, kShallowDepth);
  // What has been hashed was looked at then, and holds no such containers.
  if (PyAnySet_Check(object)) return;
  for (const PyRef& held : HeldBy(object)) {
    if (PyDict_Check(object) && IsConstant(held.get())) continue;
    LookInto(held.get(), depth + 1);
  }
}

void StateWatch::TouchContainer(PyObject* object, int depth) {
  if (depth > kMaxDepth) return Refuse("nests containers too deeply");
  const bool is_old = IsOld(object);
  const bool is_first = is_old && IsFirst(object, nullptr);
  if (is_old && written_dicts_.contains(object)) {
    return Refuse(absl::StrCat("reads all of ", PathOf(object),
                               " after it wrote items of it"));
  }
  if (is_old && unread_containers_.contains(object)) {
    Refuse(absl::StrCat("reads ", PathOf(object), " after it changed it"));
    return WantList(object);
  }
  if (is_first && !PyTuple_Check(object)) {
    const GuardNote note = NoteOf(PathOf(object));
    if (IsPythonClass(Py_TYPE(object))) guards_.AddInstance(object, note);
    if (PyDict_Check(object)) {
      guards_.AddDict(object, note);
    } else {
      guards_.AddItems(object, note);
    }
  }
  if (is_first) MarkContents(object);
  if (depth < kDeepDepth) return;
  if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(object, &position, &key, &value)) {
      TouchObject(key, depth + 1);
      TouchObject(value, depth + 1);
    }
    return;
  }
  PyRef items = PyRef::Steal(PySequence_List(object));
  if (!items) return PyErr_Clear();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    TouchObject(PyList_GET_ITEM(items.get(), i), depth + 1);
  }
}

}  // namespace mica
