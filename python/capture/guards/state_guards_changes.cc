// What has become of the state since it was noted.

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "python/capture/guards/state_guards.h"
#include "python/capture/guards/state_reading.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/host_values.h"
#include "python/capture/values/numbers.h"
#include "python/capture/values/sequences.h"
#include "python/interpreter/interpreter.h"

namespace mica {

void StateGuards::FindPromoted(PromotedScalars* promoted,
                               std::vector<StatePlace>* slots) const {
  const Alive alive = FindAlive();
  const auto differ = [&](const Kept& was, PyObject* now) {
    return alive.Has(was.get()) && DifferInNumbers(was.get(), now, "", nullptr);
  };
  for (const DictFacts& facts : dicts_) {
    if (!alive.Has(facts.dict.get())) continue;
    PyObject* dict = facts.dict.get();
    for (const Item& item : facts.items) {
      PyObject* now = FindItem(dict, item.key.get());
      if (!differ(item.value, now)) continue;
      if (IsNumber(now)) {
        promoted->AddItem(dict, item.key.get());
      } else {
        slots->push_back(
            {PyRef::Share(dict), PyRef::Share(item.key.get()), item.note});
      }
    }
    for (const auto& [key, value] : facts.contents) {
      const bool is_place = PyUnicode_CheckExact(key.get()) != 0 &&
                            PyUnicode_CHECK_INTERNED(key.get()) != 0;
      PyObject* now = is_place ? FindItem(dict, key.get()) : nullptr;
      if (now == nullptr || !IsNumber(now) || !differ(value, now)) continue;
      promoted->AddItem(dict, key.get());
    }
  }
  for (const CellFacts& facts : cells_) {
    if (!alive.Has(facts.cell.get())) continue;
    if (differ(facts.value, PyCell_GET(facts.cell.get()))) {
      slots->push_back({PyRef::Share(facts.cell.get()), PyRef(), facts.note});
    }
  }
  for (const ItemsFacts& facts : items_) {
    PyObject* sequence = facts.container.get();
    if (!alive.Has(sequence)) continue;
    if (!IsSlotSequence(sequence, facts.items.size())) continue;
    const std::vector<PyRef> items = ItemsInOrder(sequence);
    bool is_any = false, is_like = items.size() == facts.items.size();
    for (size_t i = 0; is_like && i < items.size(); ++i) {
      const Kept& was = facts.items[i];
      PyObject* now = items[i].get();
      if (was.Is(now)) continue;
      is_any = true;
      is_like = differ(was, now);
    }
    if (is_any && is_like) {
      slots->push_back(StatePlace::OfSequence(sequence, facts.note));
    }
  }
}

void StateGuards::FindChangedInstances(std::vector<PyRef>* containers) const {
  const Alive alive = FindAlive();
  for (const ItemsFacts& facts : items_) {
    PyObject* container = facts.container.get();
    if (!alive.Has(container)) continue;
    if (!IsPythonClass(Py_TYPE(container)) || CheckItems(facts, nullptr)) {
      continue;
    }
    containers->push_back(PyRef::Share(container));
  }
}

void StateGuards::FindChangedSequences(std::vector<StatePlace>* slots) const {
  const Alive alive = FindAlive();
  for (const ItemsFacts& facts : items_) {
    PyObject* sequence = facts.container.get();
    if (!alive.Has(sequence)) continue;
    if (!IsSlotSequence(sequence, facts.items.size()) ||
        CheckItems(facts, nullptr)) {
      continue;
    }
    slots->push_back(StatePlace::OfSequence(sequence, facts.note));
  }
}

void StateGuards::FindPlacesOf(PyObject* object,
                               std::vector<StatePlace>* slots) const {
  for (const DictFacts& facts : dicts_) {
    for (const Item& item : facts.items) {
      if (!item.value.Is(object)) continue;
      slots->push_back({.holder = PyRef::Share(facts.dict.get()),
                        .key = PyRef::Share(item.key.get()),
                        .note = item.note});
    }
  }
  for (const CellFacts& facts : cells_) {
    if (!facts.value.Is(object)) continue;
    slots->push_back(
        {.holder = PyRef::Share(facts.cell.get()), .note = facts.note});
  }
  for (const ItemsFacts& facts : items_) {
    const bool has_it = absl::c_any_of(
        facts.items, [object](const Kept& item) { return item.Is(object); });
    PyObject* sequence = facts.container.get();
    if (!has_it || !IsSlotSequence(sequence, facts.items.size())) continue;
    slots->push_back(StatePlace::OfSequence(sequence, facts.note));
  }
}

std::string StateGuards::FindArrays(const void* data,
                                    std::vector<StatePlace>* slots) const {
  const auto is_one = [&](const ArrayFacts& facts) {
    if (data == nullptr) return !CheckArray(facts, nullptr);
    std::string form;
    absl::string_view bytes;
    Py_buffer view;
    if (!ReadArray(facts.array.get(), &form, &bytes, &view)) return false;
    PyBuffer_Release(&view);
    const auto* at = static_cast<const char*>(data);
    return at >= bytes.data() && at < bytes.data() + bytes.size();
  };
  std::string path;
  for (const ArrayFacts& facts : arrays_) {
    if (!is_one(facts)) continue;
    path = facts.note.path;
    FindPlacesOf(facts.array.get(), slots);
  }
  return path;
}

PyObject* StateGuards::SubjectOf(Fact fact) const {
  const uint32_t i = fact.index;
  switch (fact.kind) {
    case Kind::kDict:
      return dicts_[i].dict.get();
    case Kind::kInstance:
      return instances_[i].instance.get();
    case Kind::kClassOf:
      return classes_of_[i].object.get();
    case Kind::kType:
      return types_[i].type.get();
    case Kind::kFunction:
      return functions_[i].function.get();
    case Kind::kCell:
      return cells_[i].cell.get();
    case Kind::kContextVar:
      return context_vars_[i].cell.get();
    case Kind::kWeakRef:
      return weak_refs_[i].cell.get();
    case Kind::kLock:
      return locks_[i].cell.get();
    case Kind::kItems:
      return items_[i].container.get();
    case Kind::kSlot:
      return slots_[i].owner.get();
    case Kind::kTensor:
      return tensors_[i].tensor.get();
    case Kind::kArray:
      return arrays_[i].array.get();
    case Kind::kAnswer:
      return answers_[i].function.get();
  }
  return nullptr;
}

void StateGuards::ForEachPlace(Fact fact,
                               absl::FunctionRef<void(PyObject*)> visit) const {
  const uint32_t index = fact.index;
  const auto visit_items = [&visit](PyObject* container) {
    ForEachItem(container, [&visit](PyObject* item) {
      visit(item);
      return true;
    });
  };
  switch (fact.kind) {
    case Kind::kDict: {
      const DictFacts& facts = dicts_[index];
      if (facts.is_whole) {
        for (const auto& [key, value] : ContentsOf(facts.dict.get())) {
          visit(value.get());
        }
      }
      for (const Item& item : facts.items) {
        visit(FindItem(facts.dict.get(), item.key.get()));
      }
      return;
    }
    case Kind::kInstance:
      return visit(InstanceDict(instances_[index].instance.get()));
    case Kind::kType:
      for (const size_t i : types_[index].classes) {
        Py_ssize_t position = 0;
        PyObject *name = nullptr, *value = nullptr;
        PyObject* attributes = TypeDict(AsType(classes_[i].type.get()));
        while (PyDict_Next(attributes, &position, &name, &value)) visit(value);
      }
      return;
    case Kind::kFunction:
      return ForEachPart(functions_[index].function.get(), visit);
    case Kind::kCell:
      return visit(PyCell_GET(cells_[index].cell.get()));
    case Kind::kSlot:
      return visit(
          SlotValue(slots_[index].owner.get(), slots_[index].member.get()));
    case Kind::kItems:
      return visit_items(items_[index].container.get());
    default:
      return;
  }
}

StateGuards::Alive StateGuards::FindAlive() const {
  Alive alive(*this);
  if (any_gone()) return alive;
  for (const Fact fact : facts_) {
    if (!alive.Has(SubjectOf(fact))) continue;
    // A slot is read by what its class has for it, which can be deleted.
    if (fact.kind == Kind::kSlot &&
        !alive.Has(slots_[fact.index].member.get())) {
      continue;
    }
    ForEachPlace(fact, [&](PyObject* now) {
      if (held_.IsInPlace(now)) alive.found_.insert(now);
    });
  }
  return alive;
}

bool StateGuards::Alive::Has(PyObject* object) const {
  if (object == nullptr) return true;
  switch (guards_.held_.HowHeld(object)) {
    case Held::kStrongly:
      return true;
    case Held::kWeakly:
      return !guards_.any_gone();
    case Held::kByPlace:
      return found_.contains(object);
  }
  return false;
}

bool StateGuards::IsGone(std::string* path) const {
  const auto tell = [path](const std::string& gone) {
    if (path != nullptr) *path = gone.empty() ? "an object of the state" : gone;
    return true;
  };
  if (any_gone()) return tell(held_.gone_path());
  for (const Tensor& facts : tensors_) {
    if (facts.life != nullptr && facts.life->is_over()) {
      return tell(facts.note.path);
    }
  }
  return false;
}

}  // namespace mica
