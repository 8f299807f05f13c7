#include "python/capture/guards/state_guards.h"

#include <cstring>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "python/capture/known/asked_states.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/host_values.h"
#include "python/capture/values/numbers.h"
#include "python/capture/values/places.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// Contents of larger arrays aren't guarded.
constexpr Py_ssize_t kMaxArrayBytes = 64 << 10;

bool Report(Miss* miss, const GuardNote& note, std::string expected,
            std::string got) {
  if (miss != nullptr) {
    *miss = {.kind = "state",
             .note = note,
             .expected = std::move(expected),
             .got = std::move(got)};
  }
  return false;
}

// Null: it has none.
PyRef ContextValue(PyObject* variable) {
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, nullptr, &value) != 0) PyErr_Clear();
  return PyRef::Steal(value);
}

PyObject* TypeOf(PyObject* object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object));
}

PyObject* FindItem(PyObject* dict, PyObject* key) {
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (value == nullptr && PyErr_Occurred()) PyErr_Clear();
  return value;
}

// True if this thread could take the lock at once and doesn't hold it.
bool IsFreeLock(PyObject* lock) {
  PyRef owned;
  if (absl::string_view(Py_TYPE(lock)->tp_name) == "_thread.RLock") {
    owned = PyRef::Steal(PyObject_CallMethod(lock, "_is_owned", nullptr));
  }
  const PyRef taken =
      PyRef::Steal(PyObject_CallMethod(lock, "acquire", "O", Py_False));
  const bool is_taken = taken && taken.get() == Py_True;
  if (is_taken) {
    PyRef::Steal(PyObject_CallMethod(lock, "release", nullptr));
  }
  PyErr_Clear();
  return is_taken && (!owned || owned.get() == Py_False);
}

// Calls `visit(item)` for the items of a list, set or deque in order, until it
// returns false.
template <typename F>
void ForEachItem(PyObject* container, F&& visit) {
  if (PyList_Check(container)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(container); ++i) {
      if (!visit(PyList_GET_ITEM(container, i))) return;
    }
    return;
  }
  if (PyAnySet_Check(container)) {
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    Py_hash_t hash = 0;
    while (_PySet_NextEntry(container, &position, &item, &hash)) {
      if (!visit(item)) return;
    }
    return;
  }
  PyTypeObject* deque = DequeType();
  if (deque == nullptr || !PyObject_TypeCheck(container, deque)) return;
  PyRef iterator = PyRef::Steal(deque->tp_iter(container));
  if (!iterator) {
    PyErr_Clear();
    return;
  }
  while (PyRef item = PyRef::Steal(PyIter_Next(iterator.get()))) {
    if (!visit(item.get())) return;
  }
  PyErr_Clear();
}

// Words of a list or a set that can't but differ if an item does; what one
// leads to is behind it. None for other containers.
std::vector<const void*> PlacesOfItems(PyObject* container) {
  std::vector<const void*> places;
  if (PyList_Check(container)) {
    const auto* list = reinterpret_cast<PyListObject*>(container);
    places = {&list->ob_base.ob_size, &list->ob_item};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      places.push_back(&list->ob_item[i]);
    }
  } else if (PyAnySet_Check(container)) {
    const auto* set = reinterpret_cast<PySetObject*>(container);
    places = {&set->used, &set->mask, &set->table};
    for (Py_ssize_t i = 0; i <= set->mask; ++i) {
      places.push_back(&set->table[i].key);
    }
  }
  return places;
}

// As a dict iterates; an OrderedDict's order is its own.
std::vector<std::pair<PyRef, PyRef>> ContentsOf(PyObject* dict) {
  std::vector<std::pair<PyRef, PyRef>> contents;
  contents.reserve(static_cast<size_t>(PyDict_GET_SIZE(dict)));
  if (PyODict_Check(dict)) {
    PyRef iterator = PyRef::Steal(PyODict_Type.tp_iter(dict));
    while (iterator) {
      PyRef key = PyRef::Steal(PyIter_Next(iterator.get()));
      if (!key) break;
      PyObject* value = FindItem(dict, key.get());
      contents.emplace_back(std::move(key), PyRef::Share(value));
    }
    PyErr_Clear();
    return contents;
  }
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    contents.emplace_back(PyRef::Share(key), PyRef::Share(value));
  }
  return contents;
}

// The first difference between a class's dict and its copy; true if there is
// none. Bookkeeping of the interpreter's own doesn't count.
bool SameClassDict(PyObject* was, PyObject* now,
                   absl::FunctionRef<bool(PyObject*, PyObject*)> is_same,
                   std::string* name, std::string* expected, std::string* got) {
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(now, &position, &key, &value)) {
    PyObject* old = FindItem(was, key);
    if (is_same(old, value)) continue;
    const std::string text = PyText(key);
    if (text == "__slotnames__" || text == "__doc__") continue;
    *name = text;
    *expected = DescribeValue(old);
    *got = DescribeValue(value);
    return false;
  }
  if (PyDict_GET_SIZE(was) <= PyDict_GET_SIZE(now)) return true;
  position = 0;
  while (PyDict_Next(was, &position, &key, &value)) {
    if (FindItem(now, key) != nullptr) continue;
    *name = PyText(key);
    *expected = DescribeValue(value);
    *got = "absent";
    return false;
  }
  return true;
}

// A buffer's format and layout, and its bytes; false if it isn't dense plain
// memory of bounded size.
bool ReadArray(PyObject* array, std::string* form, absl::string_view* bytes,
               Py_buffer* view) {
  if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return false;
  }
  const bool usable =
      view->len <= kMaxArrayBytes && PyBuffer_IsContiguous(view, 'A') &&
      (view->format == nullptr || std::strchr(view->format, 'O') == nullptr);
  if (!usable) {
    PyBuffer_Release(view);
    return false;
  }
  *form = view->format == nullptr ? "" : view->format;
  for (int i = 0; i < view->ndim; ++i) {
    absl::StrAppend(form, " ", view->shape[i], "/", view->strides[i]);
  }
  *bytes = absl::string_view(static_cast<const char*>(view->buf),
                             static_cast<size_t>(view->len));
  return true;
}

}  // namespace

StateGuards::DictFacts& StateGuards::FactsOf(PyObject* dict,
                                             const GuardNote& note) {
  const auto [it, is_new] = dict_index_.try_emplace(dict, dicts_.size());
  if (is_new) {
    dicts_.push_back(
        {.dict = own_dicts_.contains(dict) ? Kept(dict) : held_.Hold(dict),
         .note = note});
    dicts_.back().fact = Enter(Kind::kDict, dicts_.size());
  }
  return dicts_[it->second];
}

void StateGuards::AddValue(PyObject* dict, PyObject* key, PyObject* value,
                           const GuardNote& note) {
  DictFacts& facts = FactsOf(dict, note);
  if (facts.is_whole) return;
  if (!facts.index.try_emplace(key, facts.items.size()).second) return;
  facts.items.push_back({.key = held_.Hold(key),
                         .value = held_.Hold(value, note.path),
                         .note = note});
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
    facts.contents.emplace_back(held_.Hold(key.get()),
                                held_.Hold(value.get(), note.path));
  }
  // Its order has no version.
  if (PyODict_Check(dict) && !facts.contents.empty()) {
    wordless_.push_back(facts_[facts.fact]);
  }
}

void StateGuards::AddItems(PyObject* container, const GuardNote& note) {
  if (!IsNew(container)) return;
  ItemsFacts facts{.container = held_.Hold(container), .note = note};
  ForEachItem(container, [&](PyObject* item) {
    facts.items.push_back(held_.Hold(item));
    return true;
  });
  items_.push_back(std::move(facts));
  Enter(Kind::kItems, items_.size());
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
  if (dict != nullptr) own_dicts_.insert(dict);
  instances_.push_back({.instance = held_.Hold(instance, note.path),
                        .type = held_.Hold(TypeOf(instance)),
                        .dict = Kept(dict),
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
  held_.Hold(TypeOf(object));
  classes_of_.push_back(
      {.object = held_.Hold(object, note.path), .type = type, .note = note});
  Enter(Kind::kClassOf, classes_of_.size());
}

void StateGuards::AddAnswer(PyObject* function, PyObject* argument,
                            PyObject* value, const GuardNote& note) {
  for (const AnswerFacts& facts : answers_) {
    if (facts.function.get() == function && facts.argument.get() == argument) {
      return;
    }
  }
  answers_.push_back({.function = held_.Hold(function),
                      .argument = held_.Hold(argument),
                      .value = held_.Hold(value),
                      .note = note});
  Enter(Kind::kAnswer, answers_.size());
}

void StateGuards::AddSlot(PyObject* owner, PyObject* member,
                          const GuardNote& note) {
  if (!known_slots_.insert({{owner, member}, 0}).second) return;
  slots_.push_back({.owner = held_.Hold(owner),
                    .member = held_.Hold(member),
                    .value = held_.Hold(SlotValue(owner, member)),
                    .note = note});
  Enter(Kind::kSlot, slots_.size());
}

size_t StateGuards::AddClass(PyTypeObject* type) {
  const auto [it, is_new] = class_index_.try_emplace(type, classes_.size());
  if (is_new) {
    classes_.push_back(
        {.type = held_.Hold(reinterpret_cast<PyObject*>(type)),
         .dict = held_.Hold(PyRef::Steal(PyDict_Copy(type->tp_dict)).get())});
  }
  return it->second;
}

void StateGuards::AddType(PyTypeObject* type, const GuardNote& note) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return;
  if (!IsNew(reinterpret_cast<PyObject*>(type))) return;
  TypeFacts facts{.type = held_.Hold(reinterpret_cast<PyObject*>(type)),
                  .mro = held_.Hold(type->tp_mro),
                  .note = note};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base =
        reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
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
  functions_.push_back({.function = held_.Hold(function),
                        .code = held_.Hold(value->func_code),
                        .defaults = held_.Hold(value->func_defaults),
                        .kwdefaults = held_.Hold(value->func_kwdefaults),
                        .note = note});
  Enter(Kind::kFunction, functions_.size());
  if (value->func_kwdefaults != nullptr) {
    AddDict(value->func_kwdefaults, note);
  }
}

void StateGuards::AddCell(PyObject* cell, const GuardNote& note) {
  if (!IsNew(cell)) return;
  cells_.push_back({.cell = held_.Hold(cell),
                    .value = held_.Hold(PyCell_GET(cell)),
                    .note = note});
  Enter(Kind::kCell, cells_.size());
}

void StateGuards::AddContextVar(PyObject* variable, const GuardNote& note) {
  if (!IsNew(variable)) return;
  context_vars_.push_back({.cell = held_.Hold(variable),
                           .value = held_.Hold(ContextValue(variable).get()),
                           .note = note});
  Enter(Kind::kContextVar, context_vars_.size());
}

void StateGuards::AddWeakRef(PyObject* reference, const GuardNote& note) {
  if (!IsNew(reference)) return;
  weak_refs_.push_back({.cell = held_.Hold(reference),
                        .value = held_.Hold(PyWeakref_GetObject(reference)),
                        .note = note});
  Enter(Kind::kWeakRef, weak_refs_.size());
}

bool StateGuards::AddLock(PyObject* lock, const GuardNote& note) {
  if (!IsFreeLock(lock)) return false;
  if (!IsNew(lock)) return true;
  locks_.push_back({.cell = held_.Hold(lock), .note = note});
  Enter(Kind::kLock, locks_.size());
  return true;
}

void StateGuards::AddTensor(PyObject* tensor, const GuardNote& note) {
  if (!IsNew(tensor)) return;
  tensors_.push_back({.tensor = held_.Hold(tensor, note.path),
                      .type = Py_TYPE(tensor),
                      .meta = TensorMeta::Of(tensor),
                      .note = note});
  Enter(Kind::kTensor, tensors_.size());
}

bool StateGuards::AddArray(PyObject* array, const GuardNote& note) {
  if (known_.contains(array)) return true;
  ArrayFacts facts{.array = held_.Hold(array), .note = note};
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

std::string StateGuards::ChangedArray() const {
  for (const ArrayFacts& facts : arrays_) {
    if (!CheckArray(facts, nullptr)) return facts.note.path;
  }
  return "";
}

void StateGuards::FindVarying(VaryingNumbers* varying,
                              std::vector<StatePlace>* slots) const {
  const auto differ = [](PyObject* was, PyObject* now) {
    return DifferInNumbers(was, now, "", nullptr);
  };
  if (any_gone() || !HaveOwnDicts()) return;
  for (const DictFacts& facts : dicts_) {
    PyObject* dict = facts.dict.get();
    for (const Item& item : facts.items) {
      PyObject* now = FindItem(dict, item.key.get());
      if (!differ(item.value.get(), now)) continue;
      if (IsNumber(now)) {
        varying->AddItem(dict, item.key.get());
      } else {
        slots->push_back(
            {PyRef::Share(dict), PyRef::Share(item.key.get()), item.note});
      }
    }
  }
  for (const CellFacts& facts : cells_) {
    if (differ(facts.value.get(), PyCell_GET(facts.cell.get()))) {
      slots->push_back({PyRef::Share(facts.cell.get()), PyRef(), facts.note});
    }
  }
  for (const ItemsFacts& facts : items_) {
    PyObject* list = facts.container.get();
    if (!IsSlotList(list, facts.items.size())) continue;
    bool is_any = false, is_like = true;
    for (size_t i = 0; is_like && i < facts.items.size(); ++i) {
      PyObject* was = facts.items[i].get();
      PyObject* now = PyList_GET_ITEM(list, static_cast<Py_ssize_t>(i));
      if (SameValue(was, now)) continue;
      is_any = true;
      is_like = differ(was, now);
    }
    if (is_any && is_like) {
      slots->push_back(StatePlace::OfList(list, facts.note));
    }
  }
}

void StateGuards::FindChangedInstances(std::vector<PyRef>* containers) const {
  if (any_gone()) return;
  for (const ItemsFacts& facts : items_) {
    PyObject* container = facts.container.get();
    if (!IsPythonClass(Py_TYPE(container)) || CheckItems(facts, nullptr)) {
      continue;
    }
    containers->push_back(PyRef::Share(container));
  }
}

void StateGuards::FindChangedLists(std::vector<StatePlace>* slots) const {
  if (any_gone()) return;
  for (const ItemsFacts& facts : items_) {
    PyObject* list = facts.container.get();
    if (!IsSlotList(list, facts.items.size()) || CheckItems(facts, nullptr)) {
      continue;
    }
    slots->push_back(StatePlace::OfList(list, facts.note));
  }
}

uint32_t StateGuards::Enter(Kind kind, size_t count) {
  const auto number = static_cast<uint32_t>(facts_.size());
  facts_.push_back({kind, static_cast<uint32_t>(count - 1)});
  const size_t num_words = words_.size();
  NoteWords(number, &words_);
  if (words_.size() == num_words) wordless_.push_back(facts_.back());
  return number;
}

void StateGuards::NoteWords(uint32_t number, NotedWords* words) const {
  const auto [kind, index] = facts_[number];
  const auto add = [&](const void* at) {
    if (at != nullptr) words->Add(at, number);
  };
  switch (kind) {
    case Kind::kDict:
      return add(VersionPlace(
          reinterpret_cast<PyDictObject*>(dicts_[index].dict.get())));
    case Kind::kInstance: {
      PyObject* instance = instances_[index].instance.get();
      add(&instance->ob_type);
      add(DictPlace(instance));
      // One that it got since, without an item so far.
      PyObject* dict = InstanceDict(instance);
      if (dict == nullptr || dict == instances_[index].dict.get()) return;
      return add(VersionPlace(reinterpret_cast<PyDictObject*>(dict)));
    }
    case Kind::kType: {
      const TypeFacts& facts = types_[index];
      const void* at = VersionPlace(AsType(facts.type.get()));
      return facts.version == 0 ? words->AddChanged(at, number) : add(at);
    }
    case Kind::kFunction: {
      const auto* function =
          reinterpret_cast<PyFunctionObject*>(functions_[index].function.get());
      add(&function->func_code);
      add(&function->func_defaults);
      return add(&function->func_kwdefaults);
    }
    case Kind::kCell:
      return add(
          &reinterpret_cast<PyCellObject*>(cells_[index].cell.get())->ob_ref);
    case Kind::kSlot:
      return add(
          SlotPlace(slots_[index].owner.get(), slots_[index].member.get()));
    case Kind::kItems:
      for (const void* at : PlacesOfItems(items_[index].container.get())) {
        add(at);
      }
      return;
    case Kind::kClassOf:
      return add(&classes_of_[index].object.get()->ob_type);
    case Kind::kTensor:
      add(&tensors_[index].tensor.get()->ob_type);
      for (const void* at : TensorMeta::Places(tensors_[index].tensor.get())) {
        add(at);
      }
      return;
    case Kind::kContextVar:
    case Kind::kWeakRef:
    case Kind::kLock:
    case Kind::kArray:
    case Kind::kAnswer:
      return;
  }
}

bool StateGuards::CheckBut(const Rewritten& rewritten, Miss* miss) {
  if (any_gone()) {
    if (miss != nullptr) *miss = Gone();
    return false;
  }
  const bool is_as_noted =
      rewritten.places.empty() && rewritten.containers.empty();
  for (size_t i = words_.FindChanged(0); i < words_.size();
       i = words_.FindChanged(i)) {
    const uint32_t number = words_.fact(i);
    if (!CheckFact(facts_[number], rewritten, miss)) return false;
    if (is_as_noted) {
      NotedWords now;
      NoteWords(number, &now);
      i = words_.Replace(i, now);
    } else {
      i = words_.EndOfFact(i);
    }
  }
  for (const Fact fact : wordless_) {
    if (!CheckFact(fact, rewritten, miss)) return false;
  }
  return true;
}

bool StateGuards::CheckFact(Fact fact, const Rewritten& rewritten, Miss* miss) {
  const auto is_same = [this, miss](const auto& facts, PyObject* now) {
    if (IsSame(facts.value.get(), now)) return true;
    return Report(miss, facts.note, DescribeValue(facts.value.get()),
                  DescribeValue(now));
  };
  switch (fact.kind) {
    case Kind::kDict:
      return CheckDict(dicts_[fact.index], rewritten, miss);
    case Kind::kInstance:
      return CheckInstance(instances_[fact.index], miss);
    case Kind::kType:
      return CheckType(types_[fact.index], miss);
    case Kind::kFunction:
      return CheckFunction(functions_[fact.index], miss);
    case Kind::kCell: {
      const CellFacts& facts = cells_[fact.index];
      PyObject* cell = facts.cell.get();
      return rewritten.places.contains({cell, nullptr}) ||
             is_same(facts, PyCell_GET(cell));
    }
    case Kind::kContextVar: {
      const CellFacts& facts = context_vars_[fact.index];
      return is_same(facts, ContextValue(facts.cell.get()).get());
    }
    case Kind::kWeakRef: {
      const CellFacts& facts = weak_refs_[fact.index];
      PyObject* now = PyWeakref_GetObject(facts.cell.get());
      return facts.value.get() == now || is_same(facts, now);
    }
    case Kind::kLock: {
      const CellFacts& facts = locks_[fact.index];
      return IsFreeLock(facts.cell.get()) ||
             Report(miss, facts.note, "a free lock", "one that is held");
    }
    case Kind::kItems: {
      const ItemsFacts& facts = items_[fact.index];
      return rewritten.containers.contains(facts.container.get()) ||
             CheckItems(facts, miss);
    }
    case Kind::kSlot: {
      const SlotFacts& facts = slots_[fact.index];
      return is_same(facts, SlotValue(facts.owner.get(), facts.member.get()));
    }
    case Kind::kTensor: {
      const Tensor& facts = tensors_[fact.index];
      PyObject* tensor = facts.tensor.get();
      return (Py_TYPE(tensor) == facts.type && facts.meta.Matches(tensor)) ||
             Report(miss, facts.note, facts.meta.ToString(),
                    DescribeValue(tensor));
    }
    case Kind::kClassOf: {
      const ClassOfFacts& facts = classes_of_[fact.index];
      PyTypeObject* now = Py_TYPE(facts.object.get());
      return now == facts.type ||
             Report(miss, facts.note, TypeName(facts.type), TypeName(now));
    }
    case Kind::kAnswer: {
      const AnswerFacts& facts = answers_[fact.index];
      const PyRef now = Ask(facts.function.get(), facts.argument.get());
      if (!now) PyErr_Clear();
      return is_same(facts, now.get());
    }
    case Kind::kArray:
      return CheckArray(arrays_[fact.index], miss);
  }
  return false;
}

bool StateGuards::CheckDict(const DictFacts& facts, const Rewritten& rewritten,
                            Miss* miss) const {
  PyObject* dict = facts.dict.get();
  for (const Item& item : facts.items) {
    PyObject* now = FindItem(dict, item.key.get());
    if (IsSame(item.value.get(), now)) continue;
    if (rewritten.places.contains({dict, item.key.get()})) continue;
    return Report(miss, item.note, DescribeValue(item.value.get()),
                  DescribeValue(now));
  }
  if (!facts.is_whole) return true;
  const auto now = ContentsOf(dict);
  if (now.size() != facts.contents.size()) {
    return Report(miss, facts.note,
                  absl::StrCat(facts.contents.size(), " items"),
                  absl::StrCat(now.size(), " items"));
  }
  for (size_t i = 0; i < now.size(); ++i) {
    const auto& [key, value] = facts.contents[i];
    if (!IsSame(key.get(), now[i].first.get())) {
      return Report(miss, facts.note,
                    absl::StrCat("key ", DescribeValue(key.get())),
                    absl::StrCat("key ", DescribeValue(now[i].first.get())));
    }
    if (!IsSame(value.get(), now[i].second.get())) {
      GuardNote note = facts.note;
      absl::StrAppend(&note.path, "[", DescribeValue(key.get()), "]");
      return Report(miss, note, DescribeValue(value.get()),
                    DescribeValue(now[i].second.get()));
    }
  }
  return true;
}

bool StateGuards::CheckItems(const ItemsFacts& facts, Miss* miss) const {
  size_t count = 0;
  bool same = true;
  const size_t size = facts.items.size();
  ForEachItem(facts.container.get(), [&](PyObject* item) {
    same = count < size && IsSame(facts.items[count].get(), item);
    if (!same) {
      GuardNote note = facts.note;
      absl::StrAppend(&note.path, "[", count, "]");
      Report(miss, note,
             count < size ? DescribeValue(facts.items[count].get()) : "absent",
             DescribeValue(item));
    }
    ++count;
    return same;
  });
  if (!same) return false;
  if (count == size) return true;
  return Report(miss, facts.note, absl::StrCat(size, " items"),
                absl::StrCat(count, " items"));
}

bool StateGuards::CheckInstance(const InstanceFacts& facts, Miss* miss) const {
  PyObject* instance = facts.instance.get();
  if (TypeOf(instance) != facts.type.get()) {
    return Report(miss, facts.note, DescribeValue(facts.type.get()),
                  TypeName(Py_TYPE(instance)));
  }
  if (!HasDictOf(facts)) {
    return Report(miss, facts.note, "its own __dict__", "another __dict__");
  }
  return true;
}

bool StateGuards::CheckType(TypeFacts& facts, Miss* miss) {
  auto* type = reinterpret_cast<PyTypeObject*>(facts.type.get());
  const uint32_t now = type->tp_version_tag;
  if (now != 0 && now == facts.version) return true;
  if (type->tp_mro != facts.mro.get()) {
    return Report(miss, facts.note, "its base classes", "other base classes");
  }
  for (const size_t i : facts.classes) {
    const ClassFacts& known = classes_[i];
    auto* base = reinterpret_cast<PyTypeObject*>(known.type.get());
    std::string name, expected, got;
    const auto is_same = [this](PyObject* was, PyObject* now) {
      return IsSame(was, now);
    };
    if (!SameClassDict(known.dict.get(), base->tp_dict, is_same, &name,
                       &expected, &got)) {
      return Report(miss,
                    {absl::StrCat(TypeName(base), ".", name), facts.note.at},
                    expected, got);
    }
  }
  facts.version = TypeVersion(type);
  return true;
}

bool StateGuards::CheckFunction(const FunctionFacts& facts, Miss* miss) const {
  const auto* now = reinterpret_cast<PyFunctionObject*>(facts.function.get());
  if (now->func_code != facts.code.get()) {
    return Report(miss, facts.note, "its code", "other code");
  }
  if (!SameValue(facts.defaults.get(), now->func_defaults)) {
    return Report(miss, facts.note, "its default arguments", "others");
  }
  if (now->func_kwdefaults != facts.kwdefaults.get()) {
    return Report(miss, facts.note, "its keyword defaults", "others");
  }
  return true;
}

bool StateGuards::CheckArray(const ArrayFacts& facts, Miss* miss) const {
  std::string form;
  absl::string_view bytes;
  Py_buffer view;
  bool same = false;
  if (ReadArray(facts.array.get(), &form, &bytes, &view)) {
    same = form == facts.form && bytes == facts.bytes;
    PyBuffer_Release(&view);
  }
  if (same) return true;
  return Report(miss, facts.note, "an array's contents", "other contents");
}

int StateGuards::Traverse(visitproc visit, void* arg) const {
  return held_.Traverse(visit, arg);
}

bool StateGuards::HasDictOf(const InstanceFacts& facts) {
  PyObject* dict = InstanceDict(facts.instance.get());
  return dict == facts.dict.get() ||
         (!facts.dict && PyDict_GET_SIZE(dict) == 0);
}

bool StateGuards::HaveOwnDicts() const {
  for (const InstanceFacts& facts : instances_) {
    if (!HasDictOf(facts)) return false;
  }
  return true;
}

Miss StateGuards::Gone() const {
  const std::string path = held_.gone_path();
  return {.kind = "state",
          .note = {.path = path.empty() ? "an object of the state" : path},
          .expected = "the same object",
          .got = "another, as that is gone"};
}

int64_t StateGuards::num_facts() const {
  size_t count = items_.size() + instances_.size() + slots_.size() +
                 types_.size() + functions_.size() + cells_.size() +
                 context_vars_.size() + weak_refs_.size() + locks_.size() +
                 arrays_.size() + tensors_.size() + answers_.size() +
                 classes_of_.size();
  for (const DictFacts& facts : dicts_) {
    count += facts.items.size() + (facts.is_whole ? 1 : 0);
  }
  return static_cast<int64_t>(count);
}

std::vector<std::string> StateGuards::ToText() const {
  if (any_gone()) return {Gone().ToString()};
  std::vector<std::string> lines;
  const auto add = [&](const GuardNote& note, const std::string& claim) {
    std::string line = absl::StrCat(note.path, claim);
    if (note.at.line != 0) {
      absl::StrAppend(&line, "  (", note.at.ToString(), ")");
    }
    lines.push_back(std::move(line));
  };
  const auto is = [](PyObject* value) {
    if (value == nullptr) return std::string(" is absent");
    return absl::StrCat(IsConstant(value) ? " == " : " is ",
                        DescribeValue(value));
  };
  for (const DictFacts& facts : dicts_) {
    for (const Item& item : facts.items) add(item.note, is(item.value.get()));
    if (facts.is_whole) {
      add(facts.note,
          absl::StrCat(" has the same ", facts.contents.size(), " items"));
    }
  }
  for (const InstanceFacts& facts : instances_) {
    add(facts.note,
        absl::StrCat(" is the same ", TypeName(Py_TYPE(facts.instance.get()))));
  }
  for (const ClassOfFacts& facts : classes_of_) {
    add(facts.note, absl::StrCat(" is a ", TypeName(facts.type)));
  }
  for (const TypeFacts& facts : types_) {
    add(facts.note, " has the same attributes");
  }
  for (const FunctionFacts& facts : functions_) {
    add(facts.note, " has the same code and defaults");
  }
  for (const CellFacts& facts : cells_) add(facts.note, is(facts.value.get()));
  for (const CellFacts& facts : weak_refs_) {
    add(facts.note, is(facts.value.get()));
  }
  for (const CellFacts& facts : locks_) add(facts.note, " is free");
  for (const CellFacts& facts : context_vars_) {
    add(facts.note, is(facts.value.get()));
  }
  for (const ItemsFacts& facts : items_) {
    add(facts.note,
        absl::StrCat(" has the same ", facts.items.size(), " items"));
  }
  for (const SlotFacts& facts : slots_) add(facts.note, is(facts.value.get()));
  for (const AnswerFacts& facts : answers_) {
    add(facts.note, is(facts.value.get()));
  }
  for (const Tensor& facts : tensors_) {
    add(facts.note, absl::StrCat(" is ", facts.meta.ToString()));
  }
  for (const ArrayFacts& facts : arrays_) {
    add(facts.note, " has the same contents");
  }
  return lines;
}

}  // namespace mica
