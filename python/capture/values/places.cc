#include "python/capture/values/places.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "python/capture/values/numbers.h"

namespace mica {

PyObject* StatePlace::Itself() {
  // Of a type of its own: no dict has such a key.
  static PyObject* itself = PyCapsule_New(&itself, "mica.itself", nullptr);
  return itself;
}

StatePlace StatePlace::OfList(PyObject* list, GuardNote note) {
  return {.holder = PyRef::Share(list),
          .key = PyRef::Share(Itself()),
          .note = std::move(note)};
}

PyObject* StatePlace::Growth() {
  static PyObject* growth = PyCapsule_New(&growth, "mica.growth", nullptr);
  return growth;
}

StatePlace StatePlace::OfGrowing(PyObject* container, GuardNote note) {
  note.path = absl::StrCat("growth of ", note.path);
  return {.holder = PyRef::Share(container),
          .key = PyRef::Share(Growth()),
          .note = std::move(note)};
}

PyObject* StatePlace::Find() const {
  if (key.get() == Growth()) return nullptr;
  if (key.get() == Itself()) return holder.get();
  if (!key) return PyCell_GET(holder.get());
  PyObject* value = PyDict_GetItemWithError(holder.get(), key.get());
  if (value == nullptr && PyErr_Occurred()) PyErr_Clear();
  return value;
}

bool StatePlace::Set(PyObject* value) const {
  if (key.get() == Growth()) return value == nullptr;
  if (key.get() == Itself()) return value == holder.get();
  if (!key) return PyCell_Set(holder.get(), value) == 0;
  // It keeps an order of its own.
  const bool is_ordered = PyODict_Check(holder.get());
  if (value != nullptr) {
    const auto set = is_ordered ? PyODict_SetItem : PyDict_SetItem;
    return set(holder.get(), key.get(), value) == 0;
  }
  const int has = PyDict_Contains(holder.get(), key.get());
  const auto remove = is_ordered ? PyODict_DelItem : PyDict_DelItem;
  return has == 0 || (has > 0 && remove(holder.get(), key.get()) == 0);
}

bool IsSlotList(PyObject* list, size_t size) {
  return PyList_CheckExact(list) &&
         PyList_GET_SIZE(list) == static_cast<Py_ssize_t>(size) &&
         PyList_GET_SIZE(list) <= kMaxListedNumbers;
}

bool Slots::Add(StatePlace place) {
  const std::pair<PyObject*, PyObject*> name = {place.holder.get(),
                                                place.key.get()};
  if (!index_.try_emplace(name, static_cast<int>(places_.size())).second) {
    return false;
  }
  places_.push_back(std::move(place));
  return true;
}

bool Slots::DropUnreachable() {
  absl::flat_hash_map<PyObject*, Py_ssize_t> own;  // References to a holder.
  for (const StatePlace& place : places_) ++own[place.holder.get()];
  return Keep(
      [&own](PyObject* holder) { return Py_REFCNT(holder) > own[holder]; });
}

bool Slots::Keep(absl::FunctionRef<bool(PyObject*)> is_used) {
  const auto is_kept = [&](const StatePlace& place) {
    return is_used(place.holder.get());
  };
  if (absl::c_all_of(places_, is_kept)) return false;
  Slots kept;
  for (const StatePlace& place : places_) {
    if (is_kept(place)) kept.Add(place);
  }
  std::swap(*this, kept);
  return true;
}

std::vector<PyObject*> Slots::Values() const {
  std::vector<PyObject*> values;
  for (const StatePlace& place : places_) {
    PyObject* value = place.Find();
    values.push_back(value == nullptr ? Absent() : value);
  }
  return values;
}

PyObject* Slots::Absent() {
  // Of a type of its own: a program can't have one.
  static PyObject* absent = PyCapsule_New(&absent, "mica.absent", nullptr);
  return absent;
}

int Slots::Traverse(visitproc visit, void* arg) const {
  for (const StatePlace& place : places_) {
    Py_VISIT(place.holder.held());
    Py_VISIT(place.key.get());
  }
  return 0;
}

}  // namespace mica
