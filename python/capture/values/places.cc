#include "python/capture/values/places.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "python/capture/values/numbers.h"
#include "python/capture/values/sequences.h"

namespace mica {

PyObject* StatePlace::Itself() {
  // Of a type of its own: no dict has such a key.
  static PyObject* itself = PyCapsule_New(&itself, "mica.itself", nullptr);
  return itself;
}

StatePlace StatePlace::OfSequence(PyObject* sequence, GuardNote note) {
  return {.holder = PyRef::Share(sequence),
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

bool IsSlotSequence(PyObject* sequence, size_t size) {
  const bool is_deque = IsDeque(sequence);
  if (!is_deque && !PyList_CheckExact(sequence)) return false;
  const Py_ssize_t now = Py_SIZE(sequence);
  if (now > kMaxListedNumbers) return false;
  if (now == static_cast<Py_ssize_t>(size)) return true;
  const Py_ssize_t bound = is_deque ? BoundOf(sequence) : -1;
  return bound >= 0 && bound <= kMaxListedNumbers;
}

bool Slots::Add(StatePlace place) {
  const std::pair<PyObject*, PyObject*> name = {place.holder.get(),
                                                place.key.get()};
  if (barred_.contains(name) ||
      !index_.try_emplace(name, static_cast<int>(places_.size())).second) {
    return false;
  }
  places_.push_back(std::move(place));
  return true;
}

const StatePlace* Slots::FindSequence(absl::string_view path) const {
  const auto it = absl::c_find_if(places_, [path](const StatePlace& place) {
    absl::string_view rest = path;
    return place.key.get() == StatePlace::Itself() &&
           absl::ConsumePrefix(&rest, place.note.path) &&
           absl::StartsWith(rest, "[");
  });
  return it == places_.end() ? nullptr : &*it;
}

void Slots::Bar(PyObject* holder, PyObject* key) {
  const auto is_kept = [&](const StatePlace& place) {
    return place.holder.get() != holder || place.key.get() != key;
  };
  KeepPlaces(is_kept);
  barred_.insert({holder, key});
}

bool Slots::DropUnreachable() {
  absl::flat_hash_map<PyObject*, Py_ssize_t> own;  // References to a holder.
  for (const StatePlace& place : places_) ++own[place.holder.get()];
  return Keep(
      [&own](PyObject* holder) { return Py_REFCNT(holder) > own[holder]; });
}

bool Slots::Keep(absl::FunctionRef<bool(PyObject*)> is_used) {
  return KeepPlaces(
      [&](const StatePlace& place) { return is_used(place.holder.get()); });
}

bool Slots::KeepPlaces(absl::FunctionRef<bool(const StatePlace&)> is_kept) {
  if (absl::c_all_of(places_, is_kept)) return false;
  Slots kept;
  kept.barred_ = barred_;
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
