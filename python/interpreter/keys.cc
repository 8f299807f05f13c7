#include "python/interpreter/keys.h"

#include <vector>

#include "python/interpreter/cpython_runtime.h"

#define Py_BUILD_CORE 1
#include <internal/pycore_dict.h>
#undef Py_BUILD_CORE

namespace mica {
namespace {

using OtherKey = absl::FunctionRef<PyObject*(PyObject*)>;

// As CPython lays out an OrderedDict and its list of keys.
struct OrderNode {
  PyObject* key;
  Py_hash_t hash;
  OrderNode* next;
  OrderNode* previous;
};
struct OrderedDictObject {
  PyDictObject dict;
  OrderNode *first, *last;
};

// What the old key's end may run comes last: it might change the container.
void Replace(PyObject** place, OtherKey other, std::vector<PyRef>* old) {
  PyObject* key = *place;
  if (key == nullptr) return;
  PyObject* wanted = other(key);
  if (wanted == key) return;
  *place = PyRef::Share(wanted).release();
  old->push_back(PyRef::Steal(key));
}

void ReplaceInSet(PyObject* set, OtherKey other, std::vector<PyRef>* old) {
  auto* object = reinterpret_cast<PySetObject*>(set);
  for (Py_ssize_t i = 0; i <= object->mask; ++i) {
    Replace(&object->table[i].key, other, old);
  }
}

void ReplaceInDict(PyObject* dict, OtherKey other, std::vector<PyRef>* old) {
  PyDictKeysObject* keys = reinterpret_cast<PyDictObject*>(dict)->ma_keys;
  if (DK_IS_UNICODE(keys)) return;  // Texts, maybe those of several dicts.
  PyDictKeyEntry* entries = DK_ENTRIES(keys);
  for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i) {
    if (entries[i].me_value == nullptr) continue;
    Replace(&entries[i].me_key, other, old);
  }
}

}  // namespace

void ReplaceKeys(PyObject* container,
                 absl::FunctionRef<PyObject*(PyObject*)> other) {
  std::vector<PyRef> old;
  if (PyAnySet_Check(container)) ReplaceInSet(container, other, &old);
  if (!PyDict_Check(container)) return;
  ReplaceInDict(container, other, &old);
  if (!PyODict_Check(container)) return;
  auto* ordered = reinterpret_cast<OrderedDictObject*>(container);
  for (OrderNode* node = ordered->first; node != nullptr; node = node->next) {
    Replace(&node->key, other, &old);
  }
}

SetForm SetForm::Of(PyObject* set) {
  const auto* object = reinterpret_cast<PySetObject*>(set);
  SetForm form;
  form.mask_ = object->mask;
  form.finger_ = object->finger;
  for (Py_ssize_t i = 0; i <= object->mask; ++i) {
    const setentry& entry = object->table[i];
    if (entry.key == nullptr) continue;
    if (entry.hash == -1) {  // No object has that hash.
      form.filler_ = entry.key;
      form.removed_.push_back(i);
    } else {
      form.members_.push_back({.place = i, .hash = entry.hash});
    }
  }
  return form;
}

PyRef SetForm::Make(PyTypeObject* type, absl::Span<const PyRef> members) const {
  PyRef set = PyRef::Steal(type == &PySet_Type ? PySet_New(nullptr)
                                               : PyFrozenSet_New(nullptr));
  if (!set || members.empty() || Fill(set.get(), members)) return set;
  if (PyErr_Occurred() != nullptr) return PyRef();
  for (const PyRef& member : members) {
    if (PySet_Add(set.get(), member.get()) != 0) return PyRef();
  }
  return set;
}

bool SetForm::Fill(PyObject* set, absl::Span<const PyRef> members) const {
  if (members.size() != members_.size()) return false;
  for (size_t i = 0; i < members.size(); ++i) {
    const Py_hash_t hash = PyObject_Hash(members[i].get());
    if (hash == -1 || hash != members_[i].hash) return false;
  }
  auto* object = reinterpret_cast<PySetObject*>(set);
  if (mask_ > object->mask) {
    // Freed by the set, as what it would have made itself.
    auto* table = static_cast<setentry*>(
        PyMem_Calloc(static_cast<size_t>(mask_) + 1, sizeof(setentry)));
    if (table == nullptr) {
      PyErr_NoMemory();
      return false;
    }
    object->table = table;
    object->mask = mask_;
  }
  for (size_t i = 0; i < members.size(); ++i) {
    object->table[members_[i].place] = {.key = PyRef(members[i]).release(),
                                        .hash = members_[i].hash};
  }
  for (const Py_ssize_t place : removed_) {
    object->table[place] = {.key = filler_, .hash = -1};
  }
  object->used = static_cast<Py_ssize_t>(members_.size());
  object->fill = object->used + static_cast<Py_ssize_t>(removed_.size());
  object->finger = finger_;
  return true;
}

PyObject* DictOfView(PyObject* view) {
  return reinterpret_cast<PyObject*>(
      reinterpret_cast<_PyDictViewObject*>(view)->dv_dict);
}

}  // namespace mica
