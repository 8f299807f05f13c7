#include "python/capture/values/own_numbers.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "python/capture/values/held.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/keys.h"
#include "python/interpreter/lru_cache.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// A run that leaves more than this isn't looked through to its end.
constexpr size_t kMaxObjects = 100000;

// The part of a range that is references: it isn't the collector's.
absl::Span<PyObject*> PartsOfRange(PyObject* range) {
  return {reinterpret_cast<PyObject**>(range + 1),
          (static_cast<size_t>(PyRange_Type.tp_basicsize) - sizeof(PyObject)) /
              sizeof(PyObject*)};
}

// What may lead to a number that a program left.
bool MayLead(PyObject* object) {
  if (PyRange_Check(object)) return true;
  return PyObject_IS_GC(object) && !PyModule_Check(object) &&
         !PyFrame_Check(object) && !PyCode_Check(object) &&
         Py_TYPE(object)->tp_traverse != nullptr;
}

// Of a function, its variables but not its globals; of a class, its attributes.
std::vector<PyObject*> HeldBy(PyObject* object) {
  std::vector<PyObject*> held;
  if (PyFunction_Check(object)) {
    const auto* function = reinterpret_cast<PyFunctionObject*>(object);
    for (PyObject* part : {function->func_closure, function->func_defaults,
                           function->func_kwdefaults, function->func_dict}) {
      if (part != nullptr) held.push_back(part);
    }
  } else if (PyType_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(TypeDict(AsType(object)), &position, &key, &value)) {
      held.push_back(value);
    }
  } else if (PyRange_Check(object)) {
    const absl::Span<PyObject*> parts = PartsOfRange(object);
    held.assign(parts.begin(), parts.end());
  } else {
    Py_TYPE(object)->tp_traverse(object, AppendVisited, &held);
  }
  return held;
}

// The code of a generator or of its like, or null.
PyRef CodeOfGenerator(PyObject* object) {
  const char* name = PyGen_Check(object)         ? "gi_code"
                     : PyCoro_CheckExact(object) ? "cr_code"
                                                 : "ag_code";
  return PyRef::Steal(PyObject_GetAttrString(object, name));
}

// The words of memory in which an object may keep references, but for what it
// keeps elsewhere.
absl::Span<PyObject*> WordsOf(PyObject* object) {
  if (PyRange_Check(object)) return PartsOfRange(object);
  size_t size =
      static_cast<size_t>(Py_TYPE(object)->tp_basicsize) / sizeof(PyObject*);
  if (IsGenerator(object)) {
    const PyRef code = CodeOfGenerator(object);
    if (!code) return {};
    const auto* layout = reinterpret_cast<PyCodeObject*>(code.get());
    size += layout->co_nlocalsplus + layout->co_stacksize;
  }
  constexpr size_t kHeader = sizeof(PyObject) / sizeof(PyObject*);
  return absl::MakeSpan(reinterpret_cast<PyObject**>(object), size)
      .subspan(kHeader);
}

// The attributes that a threading.local has in this thread, or null. Borrowed.
PyObject* LocalDict(PyObject* object) {
  for (PyTypeObject* type = Py_TYPE(object); type != nullptr;
       type = type->tp_base) {
    if (absl::string_view(type->tp_name) != "_thread._local") continue;
    // Else it might be made now, by the user's code.
    if (Py_TYPE(object)->tp_init != PyBaseObject_Type.tp_init) return nullptr;
    static PyObject* name = PyUnicode_InternFromString("__dict__");
    // It is held by the thread, too.
    return PyRef::Steal(type->tp_getattro(object, name)).get();
  }
  return nullptr;
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

bool OwnNumbers::IsEntered(PyObject* object) const {
  if (!MayLead(object)) return false;
  return !PyType_Check(object) ||
         (IsPythonClass(AsType(object)) && is_new_ && is_new_(object));
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

void OwnNumbers::PutBackInOld(PyObject* object) {
  if (empty() || !PyObject_IS_GC(object)) return;
  const PyErrorKeeper keeper;
  // What these have here is no part of what the collector sees of them, and so
  // not seen when something else led to them.
  if (PyContextVar_CheckExact(object)) return PutBackInVariable(object);
  if (PyObject* dict = LocalDict(object)) PutBackInOld(dict);
  if (seen_.contains(object) || !MayLead(object)) return;
  if (PyType_Check(object) && !IsPythonClass(AsType(object))) return;
  std::vector<PyRef> held;
  for (PyObject* one : HeldBy(object)) held.push_back(PyRef::Share(one));
  for (const PyRef& one : held) {
    if (IsOwn(one.get())) PutBackAt(object);
    const bool is_new = PyRange_Check(one.get()) || is_new_(one.get());
    if (IsEntered(one.get()) && is_new) PutBackIn(one.get());
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
  std::vector<std::pair<PyRef, PyRef>> values;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(TypeDict(type), &position, &key, &value)) {
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
  if (PyType_Check(holder)) {
    PutBackInType(AsType(holder));
  } else if (!IsTensor(holder)) {
    PutBackInWords(holder);
  }
  PyObject* attributes =
      IsPythonClass(Py_TYPE(holder)) ? InstanceDict(holder) : nullptr;
  if (attributes != nullptr) PutBackInDict(attributes);
  PyErr_Clear();
}

void OwnNumbers::PutBackInWords(PyObject* holder) {
  absl::flat_hash_map<PyObject*, int> left;  // References, by what is ours.
  for (PyObject* object : HeldBy(holder)) {
    if (IsOwn(object)) ++left[object];
  }
  for (PyObject* object : HeldBy(holder)) PutBackInCache(object);
  const absl::Span<PyObject*> words = WordsOf(holder);
  // A generator has dead words behind those that it uses.
  const bool has_dead = IsGenerator(holder);
  for (auto& [own, count] : left) {
    const auto found = absl::c_count(words, own);
    if (!has_dead && found > count) count = 0;  // Not all are references.
  }
  for (PyObject*& word : words) {
    const auto it = left.find(word);
    if (it == left.end() || it->second == 0) continue;
    --it->second;
    PyObject* own = word;
    word = PyRef::Share(OriginalOf(own)).release();
    Py_DECREF(own);
  }
}

void OwnNumbers::PutBackInCache(PyObject* dict) {
  if (!PyDict_CheckExact(dict)) return;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    PyObject** place = LruCachePlace(value);
    if (place == nullptr || !IsOwn(*place)) continue;
    PyObject* own = *place;
    *place = PyRef::Share(OriginalOf(own)).release();
    Py_DECREF(own);
  }
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

}  // namespace mica
