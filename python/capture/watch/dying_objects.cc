#include "python/capture/watch/dying_objects.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "python/interpreter/interpreter.h"

namespace mica {

void DyingObjects::Lose(PyObject* object) {
  has_lost_ = true;
  if (refusal() || object == nullptr || !HeldObjects::IsNoticed(object)) return;
  lost_.try_emplace(object, PyRef::Share(object));
}

void DyingObjects::LoseAttribute(PyObject* owner, PyObject* name) {
  has_lost_ = true;
  if (refusal() || !IsOld(owner)) return;
  if (PyObject* attributes = InstanceDict(owner)) LoseItem(attributes, name);
}

void DyingObjects::LoseItem(PyObject* container, PyObject* key) {
  has_lost_ = true;
  if (!PyDict_Check(container) ||
      !(PyUnicode_CheckExact(key) || PyLong_CheckExact(key))) {
    return;
  }
  Lose(PyDict_GetItemWithError(container, key));
}

bool DyingObjects::IsLeft(PyObject* object, Py_ssize_t num_copies) const {
  // Of each kind below one. Most objects are held by many, and each step asks
  // for all of them.
  constexpr Py_ssize_t kMostOwn = 4;
  if (Py_REFCNT(object) > num_copies + kMostOwn) return false;
  const Py_ssize_t num_own = num_copies + (guards_.IsHeld(object) ? 1 : 0) +
                             (ages_.IsPinned(object) ? 1 : 0) +
                             (names_.IsPinned(object) ? 1 : 0) +
                             (lost_.contains(object) ? 1 : 0);
  return Py_REFCNT(object) <= num_own;
}

void DyingObjects::EndStep() {
  if (!has_lost_) return;
  const auto& copied = containers_.noticed();
  for (PyObject* object : guards_.noticed()) {
    Py_ssize_t num_copies = 0;
    if (!copied.empty()) {
      const auto copies = copied.find(object);
      if (copies != copied.end()) num_copies = copies->second;
    }
    if (IsLeft(object, num_copies)) return LetGoOf(object);
  }
  for (const auto& [object, num_copies] : copied) {
    if (IsLeft(object, num_copies)) return LetGoOf(object);
  }
  for (const auto& [object, held] : lost_) {
    if (IsLeft(object, 0)) return LetGoOf(object);
  }
}

void DyingObjects::LetGoOf(PyObject* object) {
  const PyErrorKeeper keeper;
  Refuse(absl::StrCat("takes the last reference to ", PathOf(object),
                      ", whose end is noticed"),
         "keep it until the call is over");
  refusal().transient = true;  // The next call finds it gone.
  PyRef last = PyRef::Share(object);
  const auto lost = std::exchange(lost_, {});
  containers_.Forget();
  ages_.Unpin(object);
  names_.Unpin(object);
  // What its end runs may come here.
  const StateGuards gone = std::exchange(guards_, StateGuards());
}

}  // namespace mica
