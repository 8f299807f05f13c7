// What is noted of the state.

#include "python/capture/guards/state_guards.h"

#include "absl/strings/str_cat.h"
#include "python/capture/guards/state_reading.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/places.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/lru_cache.h"

namespace mica {

StateGuards::DictFacts& StateGuards::FactsOf(PyObject* dict,
                                             const GuardNote& note) {
  const auto [it, is_new] = dict_index_.try_emplace(dict, dicts_.size());
  if (is_new) {
    dicts_.push_back({.dict = held_.Add(dict), .note = note});
    dicts_.back().fact = Enter(Kind::kDict, dicts_.size());
  }
  return dicts_[it->second];
}

void StateGuards::AddValue(PyObject* dict, PyObject* key, PyObject* value,
                           const GuardNote& note) {
  DictFacts& facts = FactsOf(dict, note);
  if (facts.is_whole) return;
  if (!facts.index.try_emplace(key, facts.items.size()).second) return;
  facts.items.push_back(
      {.key = held_.Add(key), .value = HoldInPlace(value, note), .note = note});
}

Kept StateGuards::HoldInPlace(PyObject* value, const GuardNote& note) {
  const Kept kept = held_.AddByPlace(value, note.path);
  if (kept.is_by_place()) AddWhatItHas(value, note);
  // An item of a cache gets other results.
  if (value != nullptr && LruCachePlace(value) != nullptr) {
    AddItems(value, note);
  }
  return kept;
}

void StateGuards::AddWhatItHas(PyObject* object, const GuardNote& note) {
  if (PyTuple_Check(object)) AddItems(object, note);
  if (IsBareWeakRef(object)) AddWeakRef(object, note);
}

void StateGuards::AddItem(PyObject* dict, PyObject* key,
                          const GuardNote& note) {
  AddValue(dict, key, FindItem(dict, key), note);
}

void StateGuards::AddItemAs(PyObject* dict, PyObject* key, PyObject* value,
                            const GuardNote& note) {
  AddValue(dict, key, value, note);
  words_.Spoil(dicts_[dict_index_[dict]].fact);
}

PyObject* StateGuards::Noted(PyObject* holder, PyObject* key) const {
  const auto value = [](const Kept& noted) {
    return noted ? noted.get() : Slots::Absent();
  };
  if (key == nullptr) {
    for (const CellFacts& facts : cells_) {
      if (facts.cell.get() == holder) return value(facts.value);
    }
    return nullptr;
  }
  const auto it = dict_index_.find(holder);
  if (it == dict_index_.end()) return nullptr;
  const DictFacts& facts = dicts_[it->second];
  if (const auto item = facts.index.find(key); item != facts.index.end()) {
    return value(facts.items[item->second].value);
  }
  return nullptr;
}

bool StateGuards::HasItem(PyObject* dict, PyObject* key) const {
  const auto it = dict_index_.find(dict);
  if (it == dict_index_.end()) return false;
  const DictFacts& facts = dicts_[it->second];
  return facts.is_whole || facts.index.contains(key);
}

void StateGuards::AddDict(PyObject* dict, const GuardNote& note) {
  DictFacts& facts = FactsOf(dict, note);
  if (facts.is_whole) return;
  facts.is_whole = true;
  facts.note = note;
  for (const auto& [key, value] : ContentsOf(dict)) {
    GuardNote item_note = note;
    absl::StrAppend(&item_note.path, "[", DescribeValue(key.get()), "]");
    facts.contents.emplace_back(held_.Add(key.get()),
                                HoldInPlace(value.get(), item_note));
  }
  // Its order has no version.
  if (PyODict_Check(dict) && !facts.contents.empty()) {
    wordless_.push_back(facts_[facts.fact]);
  }
}

void StateGuards::AddKeys(PyObject* dict, const std::vector<PyRef>& keys,
                          const GuardNote& note) {
  DictFacts& facts = FactsOf(dict, note);
  if (facts.has_keys) return;
  facts.has_keys = true;
  facts.note = note;
  for (const PyRef& key : keys) facts.keys.push_back(held_.Add(key.get()));
  words_.Spoil(facts.fact);  // They tell of other keys that it has now.
}

bool StateGuards::HasDict(PyObject* dict) const {
  const auto it = dict_index_.find(dict);
  return it != dict_index_.end() && dicts_[it->second].is_whole;
}

bool StateGuards::HasKeys(PyObject* dict) const {
  const auto it = dict_index_.find(dict);
  return it != dict_index_.end() && dicts_[it->second].has_keys;
}

void StateGuards::AddItems(PyObject* container, const GuardNote& note) {
  if (!IsNew(container)) return;
  const size_t index = items_.size();
  items_.push_back({.container = held_.Add(container),
                    .note = note,
                    .is_of_tuple = PyTuple_Check(container) != 0});
  const bool has_words = !PlacesOfItems(container).empty();
  std::vector<Kept> items;
  std::vector<PyObject*> by_place;
  ForEachItem(container, [&](PyObject* item) {
    items.push_back(has_words ? held_.AddByPlace(item) : held_.Add(item));
    if (items.back().is_by_place()) by_place.push_back(item);
    return true;
  });
  items_[index].items = std::move(items);
  Enter(Kind::kItems, index + 1);
  for (PyObject* item : by_place) AddWhatItHas(item, note);
}

void StateGuards::AddNoItems(PyObject* container, const GuardNote& note) {
  if (!IsNew(container)) return;
  items_.push_back({.container = held_.Add(container), .note = note});
  words_.Spoil(Enter(Kind::kItems, items_.size()));  // It holds something now.
}

bool StateGuards::HoldItems(PyObject* container) const {
  for (const ItemsFacts& facts : items_) {
    if (facts.container.get() == container) return CheckItems(facts, nullptr);
  }
  return false;
}

void StateGuards::AddInstance(PyObject* instance, const GuardNote& note) {
  if (!known_instances_.insert(instance).second) return;
  PyObject* dict = InstanceDict(instance);
  instances_.push_back({.instance = held_.Add(instance, note.path),
                        .type = held_.Add(TypeOf(instance)),
                        .dict = DictPlace(instance) == nullptr
                                    ? held_.Add(dict)
                                    : held_.AddByPlace(dict),
                        .note = note});
  Enter(Kind::kInstance, instances_.size());
}

void StateGuards::AddClassOf(PyObject* object, const GuardNote& note) {
  PyTypeObject* type = Py_TYPE(object);
  // Of other static types it can't be assigned.
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && !PyModule_Check(object)) {
    return;
  }
  if (IsTensor(object) && known_.contains(object)) return;
  if (known_instances_.contains(object)) return;
  if (!known_classes_of_.insert(object).second) return;
  held_.Add(TypeOf(object));
  classes_of_.push_back(
      {.object = held_.Add(object, note.path), .type = type, .note = note});
  Enter(Kind::kClassOf, classes_of_.size());
}

void StateGuards::AddAnswer(PyObject* function, PyObject* argument,
                            PyObject* value, const GuardNote& note,
                            const void* place) {
  for (const AnswerFacts& facts : answers_) {
    if (facts.function.get() == function && facts.argument.get() == argument) {
      return;
    }
  }
  answers_.push_back({.function = held_.Add(function),
                      .argument = held_.Add(argument),
                      .value = held_.Add(value),
                      .note = note,
                      .place = place});
  Enter(Kind::kAnswer, answers_.size());
}

void StateGuards::AddSlot(PyObject* owner, PyObject* member,
                          const GuardNote& note) {
  if (!known_slots_.insert({{owner, member}, 0}).second) return;
  PyObject* value = SlotValue(owner, member);
  const size_t index = slots_.size();
  slots_.push_back({.owner = held_.Add(owner, note.path),
                    .member = held_.Add(member),
                    .value = SlotPlace(owner, member) == nullptr
                                 ? held_.Add(value, note.path)
                                 : held_.AddByPlace(value, note.path),
                    .note = note});
  Enter(Kind::kSlot, index + 1);
  if (slots_[index].value.is_by_place()) HoldInPlace(value, note);
}

size_t StateGuards::AddClass(PyTypeObject* type) {
  const auto [it, is_new] = class_index_.try_emplace(type, classes_.size());
  if (is_new) {
    ClassFacts facts{.type = held_.Add(reinterpret_cast<PyObject*>(type)),
                     .index = PyRef::Steal(PyDict_New())};
    for (const auto& [name, value] : ContentsOf(TypeDict(type))) {
      const PyRef number =
          PyRef::Steal(PyLong_FromSize_t(facts.attributes.size()));
      PyDict_SetItem(facts.index.get(), name.get(), number.get());
      facts.attributes.push_back(
          {.value = held_.AddAttribute(type, value.get())});
      for (const PyRef& part : AttributeParts(value.get())) {
        facts.attributes.back().parts.push_back(held_.Add(part.get()));
      }
    }
    classes_.push_back(std::move(facts));
  }
  return it->second;
}

void StateGuards::AddType(PyTypeObject* type, const GuardNote& note) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return;
  if (!IsNew(reinterpret_cast<PyObject*>(type))) return;
  TypeFacts facts{.type = held_.Add(reinterpret_cast<PyObject*>(type)),
                  .note = note};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base =
        reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    facts.mro.push_back(held_.Add(PyTuple_GET_ITEM(type->tp_mro, i)));
    if ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) continue;
    facts.classes.push_back(AddClass(base));
  }
  facts.version = TypeVersion(type);
  types_.push_back(std::move(facts));
  Enter(Kind::kType, types_.size());
}

void StateGuards::AddFunction(PyObject* function, const GuardNote& note) {
  if (!IsNew(function)) return;
  const auto* value = reinterpret_cast<PyFunctionObject*>(function);
  // What it has is there as long as it is.
  const Kept kept = held_.Add(function, note.path);
  ForEachPart(function, [this](PyObject* part) { held_.AddByPlace(part); });
  functions_.push_back({.function = kept,
                        .code = held_.Add(value->func_code),
                        .defaults = held_.AddByPlace(value->func_defaults),
                        .kwdefaults = held_.AddByPlace(value->func_kwdefaults),
                        .note = note});
  const bool has_tuple = functions_.back().defaults.is_by_place();
  Enter(Kind::kFunction, functions_.size());
  if (has_tuple) AddItems(value->func_defaults, note);
  if (value->func_kwdefaults != nullptr) {
    AddDict(value->func_kwdefaults, note);
  }
}

void StateGuards::AddCell(PyObject* cell, const GuardNote& note) {
  if (!IsNew(cell)) return;
  PyObject* value = PyCell_GET(cell);
  cells_.push_back({.cell = held_.Add(cell),
                    .value = held_.AddByPlace(value, note.path),
                    .note = note});
  Enter(Kind::kCell, cells_.size());
  if (value != nullptr) HoldInPlace(value, note);
}

void StateGuards::AddContextVar(PyObject* variable, const GuardNote& note) {
  if (!IsNew(variable)) return;
  context_vars_.push_back({.cell = held_.Add(variable),
                           .value = held_.Add(ContextValue(variable).get()),
                           .note = note});
  Enter(Kind::kContextVar, context_vars_.size());
}

void StateGuards::AddWeakRef(PyObject* reference, const GuardNote& note) {
  if (!IsNew(reference)) return;
  weak_refs_.push_back({.cell = held_.Add(reference),
                        .value = held_.Add(PyWeakref_GetObject(reference)),
                        .note = note});
  Enter(Kind::kWeakRef, weak_refs_.size());
}

bool StateGuards::AddLock(PyObject* lock, const GuardNote& note) {
  if (!IsFreeLock(lock)) return false;
  if (!IsNew(lock)) return true;
  locks_.push_back({.cell = held_.Add(lock), .note = note});
  Enter(Kind::kLock, locks_.size());
  return true;
}

void StateGuards::AddTensor(PyObject* tensor, const GuardNote& note) {
  if (!IsNew(tensor)) return;
  tensors_.push_back({.tensor = held_.Add(tensor, note.path),
                      .type = Py_TYPE(tensor),
                      .meta = TensorMeta::Of(tensor),
                      .life = TensorLife::Of(tensor),
                      .note = note});
  Enter(Kind::kTensor, tensors_.size());
}

bool StateGuards::AddArray(PyObject* array, const GuardNote& note) {
  if (known_.contains(array)) return true;
  ArrayFacts facts{.array = held_.Add(array), .note = note};
  Py_buffer view;
  absl::string_view bytes;
  if (!ReadArray(array, &facts.form, &bytes, &view)) return false;
  facts.bytes = std::string(bytes);
  PyBuffer_Release(&view);
  known_.insert({array, 0});
  arrays_.push_back(std::move(facts));
  Enter(Kind::kArray, arrays_.size());
  return true;
}

std::vector<StateGuards::ArrayMemory> StateGuards::ArrayMemories() const {
  std::vector<ArrayMemory> memories;
  for (const ArrayFacts& facts : arrays_) {
    std::string form;
    absl::string_view bytes;
    Py_buffer view;
    if (!ReadArray(facts.array.get(), &form, &bytes, &view)) continue;
    PyBuffer_Release(&view);
    memories.push_back({.path = facts.note.path,
                        .low = bytes.data(),
                        .high = bytes.data() + bytes.size()});
  }
  return memories;
}

uint32_t StateGuards::Enter(Kind kind, size_t count) {
  const auto number = static_cast<uint32_t>(facts_.size());
  facts_.push_back({kind, static_cast<uint32_t>(count - 1)});
  const size_t num_words = words_.size();
  NoteWords(number, &words_);
  if (words_.size() == num_words) wordless_.push_back(facts_.back());
  return number;
}

}  // namespace mica
