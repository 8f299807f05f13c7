// Containers and instances that a run left.

#include <limits>

#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/record/result_tree_builder.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/sequences.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

bool HasAttributes(PyObject* object) {
  PyObject* dict = InstanceDict(object);
  return dict != nullptr && PyDict_GET_SIZE(dict) > 0;
}

}  // namespace

int ResultTree::Builder::AddNew(PyObject* object, int depth) {
  PyTypeObject* type = Py_TYPE(object);
  PyTypeObject* base = SolidBase(type);
  const bool is_class = IsPythonClass(type);
  if (is_class && !watch_.ages().IsOld(reinterpret_cast<PyObject*>(type))) {
    return Refuse(absl::StrCat("returns a ", TypeName(type),
                               ", a class made during the call"));
  }
  if (is_class && HasSlots(type)) {
    return Refuse(
        absl::StrCat("returns a ", TypeName(type), ", a class with __slots__"));
  }
  // torch.return_types are C classes that take a sequence.
  if (base == &PyTuple_Type ||
      (PyTuple_Check(object) && type->tp_base == &PyTuple_Type)) {
    return AddTuple(object, depth);
  }
  if (type == &PySlice_Type) return AddSlice(object, depth);
  if (type == &PyList_Type) {
    const int id = NewContainer(Kind::kList, object);
    AddItems(id, object, depth);
    return id;
  }
  if (IsDeque(object)) return AddDeque(object, depth);
  const bool is_bare_ordered = type == &PyODict_Type && !HasAttributes(object);
  if (type == &PyDict_Type || is_bare_ordered || type == DefaultDictType()) {
    const int id = NewContainer(Kind::kDict, object);
    AddDict(id, object, depth);
    // Behind the items.
    if (const PyRef factory = FactoryOf(object)) {
      AddChild(id, factory.get(), depth);
    }
    return id;
  }
  if (type == &PySet_Type || type == &PyFrozenSet_Type) {
    return AddSet(object, depth);
  }
  if (type == &PyODict_Type ||
      (is_class && (base == &PyBaseObject_Type || base == &PyDict_Type ||
                    base == &PyODict_Type))) {
    const int id = NewContainer(Kind::kInstance, object);
    if (PyDict_Check(object)) AddDict(id, object, depth);
    AddAttributes(id, object, depth);
    return id;
  }
  if (type == &PyMethod_Type) {
    const int id = NewContainer(Kind::kMethod, object);
    AddChild(id, PyMethod_GET_FUNCTION(object), depth);
    AddChild(id, PyMethod_GET_SELF(object), depth);
    return id;
  }
  if (type == &PyCFunction_Type && PyCFunction_GET_SELF(object) != nullptr &&
      !PyModule_Check(PyCFunction_GET_SELF(object))) {
    return AddBuiltin(object, depth);
  }
  return Refuse(absl::StrCat("returns a ", TypeName(type),
                             ", which can't be made again"));
}

int ResultTree::Builder::AddTuple(PyObject* tuple, int depth) {
  if (HasAttributes(tuple)) {
    return Refuse("returns a tuple with attributes");
  }
  const int id = NewContainer(Kind::kTuple, tuple);
  open_[id] = true;
  AddItems(id, tuple, depth);
  open_[id] = false;
  return id;
}

int ResultTree::Builder::AddSlice(PyObject* object, int depth) {
  const auto* slice = reinterpret_cast<PySliceObject*>(object);
  const int id = NewContainer(Kind::kTuple, object);
  for (PyObject* item : {slice->start, slice->stop, slice->step}) {
    AddChild(id, item, depth);
  }
  return id;
}

int ResultTree::Builder::AddDeque(PyObject* deque, int depth) {
  const Py_ssize_t bound = BoundOf(deque);
  if (bound > std::numeric_limits<int>::max()) {
    return Refuse("returns a deque of a bound past all memory");
  }
  const int id = NewContainer(Kind::kDeque, deque);
  tree_.nodes_[id].index = static_cast<int>(bound);
  for (const PyRef& item : ItemsInOrder(deque)) AddChild(id, item.get(), depth);
  return id;
}

int ResultTree::Builder::AddSet(PyObject* set, int depth) {
  const int id = NewContainer(Kind::kSet, set);
  tree_.nodes_[id].set_form = std::make_shared<SetForm>(SetForm::Of(set));
  PyRef items = PyRef::Steal(PySequence_List(set));
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    if (!IsConstant(item)) return Refuse("returns a set of objects");
    watch_.values().MarkExactDeep(item);
    AddChild(id, item, depth);
  }
  return id;
}

int ResultTree::Builder::AddBuiltin(PyObject* object, int depth) {
  auto* function = reinterpret_cast<PyCFunctionObject*>(object);
  const int id = NewContainer(Kind::kBuiltin, object);
  AddChild(id, function->m_self, depth);
  Node& node = tree_.nodes_[id];
  node.method = function->m_ml;
  // The definition is the class's.
  node.keys.push_back(
      PyRef::Share(reinterpret_cast<PyObject*>(Py_TYPE(function->m_self))));
  node.keys.push_back(PyRef::Share(function->m_module));
  return id;
}

void ResultTree::Builder::AddChild(int id, PyObject* object, int depth) {
  const int child = Add(object, depth + 1);
  tree_.nodes_[id].children.push_back(child);
}

void ResultTree::Builder::AddItems(int id, PyObject* sequence, int depth) {
  const bool is_tuple = PyTuple_Check(sequence);
  for (Py_ssize_t i = 0; i < Py_SIZE(sequence); ++i) {
    PyObject* item =
        is_tuple ? PyTuple_GET_ITEM(sequence, i) : PyList_GET_ITEM(sequence, i);
    AddChild(id, item, depth);
  }
}

void ResultTree::Builder::AddDict(int id, PyObject* dict, int depth) {
  for (const PyRef& own : KeysOf(dict)) {
    PyObject* key = own.get();
    if (!IsConstant(key) && !watch_.ages().IsOld(key)) {
      Refuse("returns a dict with a key that isn't a constant");
      return;
    }
    watch_.values().MarkExactDeep(key);
    PyObject* value = PyDict_GetItemWithError(dict, key);
    if (value == nullptr) return PyErr_Clear();
    AddChild(id, value, depth);
    tree_.nodes_[id].keys.push_back(watch_.values().PlainOf(key));
  }
}

void ResultTree::Builder::AddAttributes(int id, PyObject* object, int depth) {
  PyObject* dict = InstanceDict(object);
  if (dict == nullptr) return;
  if (node_of_.contains(dict) || inputs_.FindNode(dict) >= 0 ||
      watch_.ages().IsKnownOld(dict) || OwnerOf(dict) != nullptr) {
    // As of a dict that is its own `__dict__`.
    tree_.nodes_[id].index = kHasDict;
    return AddChild(id, dict, depth);
  }
  owners_[dict] = object;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    watch_.values().MarkExactDeep(key);  // Any key, by way of the dict.
    AddChild(id, value, depth);
    tree_.nodes_[id].names.push_back(watch_.values().PlainOf(key));
  }
}

PyObject* ResultTree::Builder::OwnerOf(PyObject* dict) {
  if (!PyDict_Check(dict)) return nullptr;
  if (!knows_owners_) {
    knows_owners_ = true;
    for (PyObject* object : inputs_.covered()) {
      PyObject* attributes =
          IsPythonClass(Py_TYPE(object)) ? InstanceDict(object) : nullptr;
      if (attributes != nullptr) owners_[attributes] = object;
    }
  }
  const auto it = owners_.find(dict);
  return it == owners_.end() ? nullptr : it->second;
}

}  // namespace mica
