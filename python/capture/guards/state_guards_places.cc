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

// Whether `constant` is `holder`, or is in it: an item of a constant tuple, a
// constant of some code or of code in that.
bool IsIn(PyObject* constant, PyObject* holder) {
  if (holder == constant) return true;
  if (holder == nullptr) return false;
  if (PyFunction_Check(holder)) holder = PyFunction_GET_CODE(holder);
  if (PyCode_Check(holder)) {
    holder = reinterpret_cast<PyCodeObject*>(holder)->co_consts;
  }
  if (!PyTuple_CheckExact(holder)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(holder); ++i) {
    if (IsIn(constant, PyTuple_GET_ITEM(holder, i))) return true;
  }
  return false;
}

}  // namespace

bool StateGuards::HasConstant(PyObject* constant) const {
  bool has = false;
  const auto visit = [&](PyObject* holder) { has |= IsIn(constant, holder); };
  // What was found there: the run may have set it since.
  for (const DictFacts& facts : dicts_) {
    for (const Item& item : facts.items) visit(item.value.get());
    for (const auto& [key, value] : facts.contents) visit(value.get());
  }
  for (const ItemsFacts& facts : items_) {
    for (const Kept& item : facts.items) visit(item.get());
  }
  for (const CellFacts& facts : cells_) visit(facts.value.get());
  for (const SlotFacts& facts : slots_) visit(facts.value.get());
  for (const Fact fact : facts_) {
    if (fact.kind == Kind::kType || fact.kind == Kind::kFunction) {
      ForEachPlace(fact, visit);
    }
  }
  return has;
}

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
