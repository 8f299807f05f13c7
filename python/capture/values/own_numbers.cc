#include "python/capture/values/own_numbers.h"

#include <algorithm>
#include <utility>

#include "python/interpreter/interpreter.h"
#include "python/interpreter/keys.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// A run that leaves more than this isn't looked through to its end.
constexpr size_t kMaxObjects = 100000;

int Append(PyObject* object, void* to) {
  static_cast<std::vector<PyObject*>*>(to)->push_back(object);
  return 0;
}

// What may lead to a number that a program left.
bool IsEntered(PyObject* object) {
  return PyObject_IS_GC(object) && !PyType_Check(object) &&
         !PyModule_Check(object) && !PyCFunction_Check(object) &&
         !PyFrame_Check(object) && !PyCode_Check(object) &&
         !IsGenerator(object) && Py_TYPE(object)->tp_traverse != nullptr;
}

// Of a function, its variables but not its globals.
std::vector<PyObject*> HeldBy(PyObject* object) {
  std::vector<PyObject*> held;
  if (PyFunction_Check(object)) {
    const auto* function = reinterpret_cast<PyFunctionObject*>(object);
    for (PyObject* part : {function->func_closure, function->func_defaults,
                           function->func_kwdefaults, function->func_dict}) {
      if (part != nullptr) held.push_back(part);
    }
  } else {
    Py_TYPE(object)->tp_traverse(object, Append, &held);
  }
  return held;
}

}  // namespace

void OwnNumbers::Add(PyObject* own, PyObject* original) {
  owns_.push_back(PyRef::Share(own));
  originals_[own] = PyRef::Share(original);
}

PyObject* OwnNumbers::OriginalOf(PyObject* object) const {
  // What one stands for may stand for another: an argument that the program
  // put where it was read again.
  for (auto it = originals_.find(object); it != originals_.end();
       it = originals_.find(object)) {
    object = it->second.get();
  }
  return object;
}

void OwnNumbers::PutBackIn(PyObject* root) {
  if (empty() || root == nullptr) return;
  const PyErrorKeeper keeper;
  std::vector<PyRef> pending;  // Held on to while others are changed.
  pending.push_back(PyRef::Share(root));
  while (!pending.empty() && seen_.size() < kMaxObjects) {
    const PyRef holder = std::move(pending.back());
    pending.pop_back();
    if (!IsEntered(holder.get()) || !seen_.insert(holder.get()).second) {
      continue;
    }
    const std::vector<PyObject*> held = HeldBy(holder.get());
    for (PyObject* object : held) {
      if (IsEntered(object)) pending.push_back(PyRef::Share(object));
    }
    if (std::any_of(held.begin(), held.end(),
                    [this](PyObject* object) { return IsOwn(object); })) {
      PutBackAt(holder.get());
    }
  }
}

void OwnNumbers::PutBackInOld(PyObject* object,
                              absl::FunctionRef<bool(PyObject*)> is_new) {
  if (empty() || !PyObject_IS_GC(object) || seen_.contains(object)) return;
  const PyErrorKeeper keeper;
  if (PyType_Check(object)) {
    PutBackInType(AsType(object));
    PyErr_Clear();
    return;
  }
  if (PyContextVar_CheckExact(object)) return PutBackInVariable(object);
  if (!IsEntered(object)) return;
  std::vector<PyRef> held;
  for (PyObject* one : HeldBy(object)) held.push_back(PyRef::Share(one));
  for (const PyRef& one : held) {
    if (IsOwn(one.get())) PutBackAt(object);
    if (IsEntered(one.get()) && is_new(one.get())) PutBackIn(one.get());
  }
}

void OwnNumbers::PutBackInVariable(PyObject* variable) {
  PyObject* found = nullptr;
  if (PyContextVar_Get(variable, nullptr, &found) != 0) PyErr_Clear();
  const PyRef value = PyRef::Steal(found);
  if (!value) return;
  if (!IsOwn(value.get())) return PutBackIn(value.get());
  PyRef::Steal(PyContextVar_Set(variable, OriginalOf(value.get())));
  PyErr_Clear();
}

void OwnNumbers::PutBackInType(PyTypeObject* type) {
  if (!IsPythonClass(type)) return;
  std::vector<std::pair<PyRef, PyRef>> values;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(type->tp_dict, &position, &key, &value)) {
    if (!IsOwn(value)) continue;
    values.emplace_back(PyRef::Share(key), PyRef::Share(OriginalOf(value)));
  }
  for (const auto& [name, original] : values) {
    PyType_Type.tp_setattro(reinterpret_cast<PyObject*>(type), name.get(),
                            original.get());
  }
}

void OwnNumbers::PutBackAt(PyObject* holder) {
  if (PyTuple_Check(holder)) PutBackInTuple(holder);
  if (PyDict_Check(holder)) PutBackInDict(holder);
  if (PyAnySet_Check(holder)) PutBackInKeys(holder);
  if (PyList_Check(holder) ||
      (DequeType() != nullptr && PyObject_TypeCheck(holder, DequeType()))) {
    PutBackInSequence(holder);
  }
  if (PyCell_Check(holder)) {
    PyObject* value = PyCell_GET(holder);
    if (value != nullptr && IsOwn(value)) {
      PyCell_Set(holder, OriginalOf(value));
    }
  }
  if (!IsPythonClass(Py_TYPE(holder))) {
    PyErr_Clear();
    return;
  }
  PyObject* attributes = InstanceDict(holder);
  if (attributes != nullptr) PutBackInDict(attributes);
  if (!IsTensor(holder) && HasSlots(Py_TYPE(holder))) PutBackInSlots(holder);
  PyErr_Clear();
}

void OwnNumbers::PutBackInDict(PyObject* dict) {
  std::vector<std::pair<PyRef, PyRef>> values;
  bool has_own_key = false;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    has_own_key |= IsOwn(key);
    if (!IsOwn(value)) continue;
    values.emplace_back(PyRef::Share(key), PyRef::Share(OriginalOf(value)));
  }
  for (const auto& [name, original] : values) {
    PyDict_SetItem(dict, name.get(), original.get());
  }
  if (has_own_key) PutBackInKeys(dict);
}

void OwnNumbers::PutBackInKeys(PyObject* container) {
  ReplaceKeys(container, [this](PyObject* key) { return OriginalOf(key); });
}

void OwnNumbers::PutBackInSequence(PyObject* sequence) {
  const Py_ssize_t size = PySequence_Size(sequence);
  for (Py_ssize_t i = 0; i < size; ++i) {
    const PyRef item = PyList_Check(sequence)
                           ? PyRef::Share(PyList_GET_ITEM(sequence, i))
                           : PyRef::Steal(PySequence_GetItem(sequence, i));
    if (!item || !IsOwn(item.get())) continue;
    PyObject* original = OriginalOf(item.get());
    if (PyList_Check(sequence)) {
      Py_INCREF(original);
      PyList_SetItem(sequence, i, original);
    } else {
      PySequence_SetItem(sequence, i, original);
    }
  }
}

// It shows an equal item in the place of ours: nobody can tell but by identity.
void OwnNumbers::PutBackInTuple(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    if (item == nullptr || !IsOwn(item)) continue;
    PyObject* original = OriginalOf(item);
    Py_INCREF(original);
    PyTuple_SET_ITEM(tuple, i, original);
    Py_DECREF(item);
  }
}

void OwnNumbers::PutBackInSlots(PyObject* object) {
  PyObject* bases = Py_TYPE(object)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
    PyTypeObject* base = AsType(PyTuple_GET_ITEM(bases, i));
    if (!IsPythonClass(base)) continue;
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *member = nullptr;
    while (PyDict_Next(base->tp_dict, &position, &key, &member)) {
      if (Py_TYPE(member) != &PyMemberDescr_Type) continue;
      PyObject* value = SlotValue(object, member);
      if (value == nullptr || !IsOwn(value)) continue;
      PyMemberDescr_Type.tp_descr_set(member, object, OriginalOf(value));
    }
  }
}

}  // namespace mica
