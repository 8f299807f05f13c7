// Where a program's state has constants that are objects of their own.

#include "python/capture/guards/state_guards.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"

namespace mica {
namespace {

// Equal ones may be two objects, and a program may put either in its place.
bool IsOwnObject(PyObject* value) {
  if (value == nullptr || !IsConstant(value)) return false;
  if (PyLong_CheckExact(value)) return SharedInt(value).get() != value;
  return PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) ||
         PyBytes_CheckExact(value) || PyComplex_CheckExact(value) ||
         PyTuple_CheckExact(value);
}

}  // namespace

absl::flat_hash_map<PyObject*, std::pair<Kept, Kept>>
StateGuards::PlacesOfConstants() const {
  absl::flat_hash_map<PyObject*, std::pair<Kept, Kept>> places;
  for (const DictFacts& facts : dicts_) {
    for (const Item& item : facts.items) {
      if (!IsOwnObject(item.value.get())) continue;
      places.insert({item.value.get(), {facts.dict, item.key}});
    }
    for (const auto& [key, value] : facts.contents) {
      if (!IsOwnObject(value.get())) continue;
      places.insert({value.get(), {facts.dict, key}});
    }
  }
  for (const CellFacts& facts : cells_) {
    if (!IsOwnObject(facts.value.get())) continue;
    places.insert({facts.value.get(), {facts.cell, Kept()}});
  }
  return places;
}

}  // namespace mica
