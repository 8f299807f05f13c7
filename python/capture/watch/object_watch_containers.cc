// What a program reads of containers, and of iterators over them.

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/capture/watch/object_kinds.h"
#include "python/capture/watch/object_watch.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/keys.h"

namespace mica {
namespace {

// Containers nested deeper than this aren't followed.
constexpr int kMaxDepth = 16;

// Whether code in C says what an object is equal to, by more than identity.
bool IsComparedInC(PyObject* object) {
  static PyObject* word = Interned("__eq__");
  PyObject* equal = _PyType_Lookup(Py_TYPE(object), word);
  return equal != nullptr && Py_TYPE(equal) == &PyWrapperDescr_Type &&
         equal != _PyType_Lookup(&PyBaseObject_Type, word);
}

}  // namespace

void ObjectWatch::TouchSources(PyObject* iterator, int depth) {
  if (depth > kMaxDepth) return Refuse("nests iterators too deeply");
  // Held on to, as what is looked at may run Python code.
  for (const PyRef& held : HeldBy(iterator)) Touch(held.get(), depth + 1);
}

void ObjectWatch::Inspect(PyObject* object) {
  values_.MarkExactDeep(object);
  if (!refusal() && object != nullptr) LookInto(object, kShallow);
}

// Their operators may be replaced in Python, though they hold nothing but
// constants.
void ObjectWatch::TouchTupleTypes(PyObject* tuple) {
  TouchType(Py_TYPE(tuple));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    if (PyTuple_Check(item)) TouchTupleTypes(item);
  }
}

void ObjectWatch::LookInto(PyObject* object, int depth) {
  if (refusal()) return;
  if (IsConstant(object)) {
    if (PyTuple_Check(object)) TouchTupleTypes(object);
    return values_.MarkExactDeep(object);
  }
  TouchType(Py_TYPE(object));
  identity_.Identify(object);
  const bool gives_items = GivesItems(object) && !IsOld(object);
  if (!gives_items && !IsContainer(object)) {
    // What it holds counts as where it is an operand itself; others say in
    // Python what they are equal to.
    return IsComparedInC(object) ? Touch(object) : TouchClassOf(object);
  }
  if (depth > kMaxDepth) return Refuse("nests containers too deeply");
  // Once, however many hold it.
  if (!looked_into_.try_emplace(object, PyRef::Share(object)).second) return;
  const absl::Cleanup forget = [this, depth] {
    if (depth == kShallow) looked_into_.clear();
  };
  if (!gives_items) TouchContainer(object, kShallow);
  // Numbers that are followed from now on, too.
  if (PyDict_Check(object)) values_.MarkExactDeep(object);
  // What has been hashed was looked at then, and holds no such containers.
  if (PyAnySet_Check(object)) return;
  for (const PyRef& held : HeldBy(object)) {
    const bool is_plain = IsConstant(held.get()) && !PyTuple_Check(held.get());
    if (PyDict_Check(object) && is_plain) continue;
    LookInto(held.get(), depth + 1);
  }
}

// Whoever copies a dict asks its keys for their hashes, by their classes, which
// may be others by then.
void ObjectWatch::TouchKeys(PyObject* dict) {
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (IsPythonClass(Py_TYPE(key))) TouchClassOf(key);
  }
}

bool ObjectWatch::TouchNames(PyObject* items) {
  const bool is_view = PyDictKeys_Check(items) || PyDictItems_Check(items);
  PyObject* dict = is_view ? DictOfView(items) : items;
  if (!PyDict_Check(dict) || IsPythonClass(Py_TYPE(dict))) return false;
  const std::vector<PyRef> keys = KeysOf(dict);
  for (const PyRef& key : keys) {
    if (!PyUnicode_CheckExact(key.get())) return false;
  }
  Touch(dict);
  for (const PyRef& key : keys) {
    identity_.IdentifyDeep(key.get());
    Touch(key.get(), kDeep);
  }
  return true;
}

bool ObjectWatch::ReadItems(PyObject* dict) {
  if (guards_.HasKeys(dict)) return true;
  if (is_in_later_pass() || !HasPlainItems(dict) ||
      written_.HasRemovedFrom(dict) || containers_.HasUnknown(dict) ||
      containers_.Has(dict)) {
    return false;
  }
  // Noted as a whole before the run set items of it: the others are as they
  // were.
  if (guards_.HasDict(dict)) return true;
  const std::vector<PyRef> keys = KeysOf(dict);
  for (const PyRef& key : keys) {
    if (!PyUnicode_CheckExact(key.get()) && !PyLong_CheckExact(key.get())) {
      return false;
    }
  }
  const std::string path = PathOf(dict);
  std::vector<PyRef> older;
  for (const PyRef& key : keys) {
    if (written_.IsNew(dict, key.get())) continue;
    older.push_back(key);
    places_.UseItem(dict, key.get(),
                    absl::StrCat(path, "[", DescribeValue(key.get()), "]"),
                    PlaceUse::kRead);
  }
  guards_.AddKeys(dict, older, NoteOf(path));
  return true;
}

void ObjectWatch::TouchContainer(PyObject* object, int depth) {
  if (depth > kMaxDepth) return Refuse("nests containers too deeply");
  const bool is_old = IsOld(object);
  const bool is_first = is_old && IsFirst(object, nullptr);
  const bool is_changed = is_old && written_.HasChanged(object);
  const bool by_items = is_old && PyDict_Check(object) != 0 &&
                        (is_changed || written_.HasFollowed(object)) &&
                        ReadItems(object);
  if (is_changed && !by_items) {
    return Refuse(absl::StrCat("reads all of ", PathOf(object),
                               " after it wrote items of it"));
  }
  const bool is_unread = is_old && containers_.IsUnread(object);
  if (is_unread && !containers_.ReadEmpty(object)) {
    Refuse(absl::StrCat("reads ", PathOf(object), " after it changed it"));
    return containers_.WantSequence(object);
  }
  if (is_first && !PyTuple_Check(object)) {
    const GuardNote note = NoteOf(PathOf(object));
    if (IsPythonClass(Py_TYPE(object))) guards_.AddInstance(object, note);
    if (by_items) {
      // Its keys are noted.
    } else if (PyDict_Check(object)) {
      guards_.AddDict(object, note);
    } else {
      guards_.AddItems(object, note);
    }
  }
  if (is_first && !by_items && !is_unread) ages_.MarkContents(object);
  if (is_first && PyDict_Check(object)) TouchKeys(object);
  if (depth < kDeep) return;
  // Once, however many hold it.
  if (!touched_.try_emplace(object, PyRef::Share(object)).second) return;
  const absl::Cleanup forget = [this, depth] {
    if (depth == kDeep) touched_.clear();
  };
  if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(object, &position, &key, &value)) {
      Touch(key, depth + 1);
      Touch(value, depth + 1);
    }
    return;
  }
  PyRef items = PyRef::Steal(PySequence_List(object));
  if (!items) return PyErr_Clear();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    Touch(PyList_GET_ITEM(items.get(), i), depth + 1);
  }
}

}  // namespace mica
