#include "python/capture/watch/written_places.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"

namespace mica {

PyRef WrittenPlaces::Canonical(PyObject* key) {
  if (PyUnicode_CheckExact(key)) {
    PyObject* interned = key;
    Py_INCREF(interned);
    PyUnicode_InternInPlace(&interned);
    return PyRef::Steal(interned);
  }
  if (!keys_) keys_ = PyRef::Steal(PyDict_New());
  if (!keys_ || !PyLong_CheckExact(key)) return PyRef::Share(key);
  // One of the run's own may be followed: a hit leaves what it stands for.
  const PyRef plain = values_.PlainOf(key);
  return PyRef::Share(PyDict_SetDefault(keys_.get(), plain.get(), plain.get()));
}

void WrittenPlaces::Write(PyObject* holder, PyRef key,
                          const std::string& path) {
  if (guards_.Noted(holder, key.get()) != nullptr) NoteChange(holder);
  holders_.insert(holder);
  const bool is_first = written_keys_.insert({holder, key.get()}).second;
  if (is_first && key && PyDict_Check(holder)) {
    const int has = PyDict_Contains(holder, key.get());
    if (has < 0) PyErr_Clear();
    if (has == 0) new_.insert({holder, key.get()});
  }
  places_.push_back({.holder = PyRef::Share(holder),
                     .key = std::move(key),
                     .note = NoteOf(path)});
}

bool WrittenPlaces::AddTo(PyObject* holder, PyObject* key,
                          const std::string& path, Increment* known) {
  const StatePlace place{.holder = PyRef::Share(holder),
                         .key = PyRef::Share(key)};
  PyObject* now = place.Find();
  if (now == nullptr || !IsNumber(now) || !IsNumber(addend_) ||
      guards_.Noted(holder, key) != nullptr || containers_.HasUnknown(holder) ||
      (key != nullptr && IsPromoted(holder, key))) {
    return false;
  }
  if (known == nullptr) {
    increment_index_[{holder, key}] = increments_.size();
    known = &increments_.emplace_back();
    known->place = place;
    known->place.note = NoteOf(path);
    known->before = PyRef::Share(now);
  }
  known->addends.push_back(PyRef::Share(addend_));
  return took_addend_ = true;
}

bool WrittenPlaces::UseSpecially(PyObject* holder, PyObject* key,
                                 const std::string& path, PlaceUse use) {
  if (slots_ != nullptr && slots_->Has(holder, key)) {
    if (use == PlaceUse::kRead) return true;  // Guarded as an argument.
    Write(holder, PyRef::Share(key), path);
    return true;
  }
  const auto at = increment_index_.find({holder, key});
  Increment* known =
      at == increment_index_.end() ? nullptr : &increments_[at->second];
  if (use == PlaceUse::kRead && addend_ != nullptr) {
    return AddTo(holder, key, path, known);
  }
  if (known == nullptr) return false;
  if (use == PlaceUse::kWrite && stores_sum_) return true;
  if (use == PlaceUse::kRead) {
    known->is_read = true;
    return true;
  }
  Refuse(absl::StrCat("sets ", path, " after it added to it"));
  refusal().transient = true;
  refusals_.WantSlot(known->place);
  return true;
}

bool WrittenPlaces::RefusesLaterUse(PyObject* holder, PyObject* key,
                                    const std::string& path, PlaceUse use) {
  if (!is_in_later_pass() || refusal()) return false;
  if (use != PlaceUse::kRead) {
    Refuse(absl::StrCat("sets ", path));
  } else if (IsWritten(holder, key) ||
             increment_index_.contains({holder, key}) ||
             (slots_ != nullptr && slots_->Has(holder, key)) ||
             (key != nullptr && IsPromoted(holder, key))) {
    Refuse(absl::StrCat("reads ", path, ", which varies"),
           "keep it in an attribute of ctx");
  } else {
    return false;
  }
  return true;
}

bool WrittenPlaces::HasRemovedFrom(PyObject* dict) const {
  return absl::c_any_of(removed_, [&](const Key& place) {
    return place.first == dict && !new_.contains(place);
  });
}

bool WrittenPlaces::HasFollowed(PyObject* dict) {
  if (slots_ == nullptr && promoted_ == nullptr) return false;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    const PyRef name = Canonical(key);
    if (slots_ != nullptr && slots_->Has(dict, name.get())) return true;
    if (IsPromoted(dict, name.get())) return true;
  }
  return false;
}

bool WrittenPlaces::HasChanged(PyObject* holder) const {
  return HasWritten(holder) ||
         absl::c_any_of(increments_, [&](const Increment& increment) {
           return increment.place.holder.get() == holder;
         });
}

std::vector<StatePlace> WrittenPlaces::AllPlaces() const {
  std::vector<StatePlace> all = places_;
  for (const Increment& increment : increments_) {
    all.push_back(increment.place);
  }
  if (slots_ != nullptr) {
    all.insert(all.end(), slots_->places().begin(), slots_->places().end());
  }
  return all;
}

bool WrittenPlaces::FinishIncrements(std::vector<Increment>* increments,
                                     std::string* reason) {
  for (const Increment& increment : increments_) {
    PyRef sum = increment.before;
    for (const PyRef& addend : increment.addends) {
      sum = PyRef::Steal(PyNumber_Add(sum.get(), addend.get()));
      if (!sum) {
        PyErr_Clear();
        *reason = "no memory for a number";
        return false;
      }
    }
    if (!SameValue(sum.get(), increment.place.Find())) {
      *reason = absl::StrCat("changes state: ", increment.place.note.path);
      return false;
    }
    if (increment.is_read) {
      PyObject* key = increment.place.key.get();
      if (key == nullptr) {
        refusals_.WantSlot(increment.place);
        *reason = absl::StrCat("reads and changes ", increment.place.note.path);
        return false;
      }
      guards_.AddItemAs(increment.place.holder.get(), key,
                        increment.before.get(), increment.place.note);
    }
    increments->push_back(increment);
  }
  return true;
}

}  // namespace mica
