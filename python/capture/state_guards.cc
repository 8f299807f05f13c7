#include "python/capture/state_guards.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "python/capture/constants.h"
#include "python/capture/host_values.h"
#include "python/capture/numbers.h"
#include "python/capture/places.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// Contents of larger arrays aren't guarded.
constexpr Py_ssize_t kMaxArrayBytes = 64 << 10;

uint64_t VersionOfDict(PyObject* dict) {
  return DictVersion(reinterpret_cast<PyDictObject*>(dict));
}

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
bool SameClassDict(PyObject* was, PyObject* now, std::string* name,
                   std::string* expected, std::string* got) {
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(now, &position, &key, &value)) {
    PyObject* old = FindItem(was, key);
    if (SameValue(old, value)) continue;
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
    dicts_.push_back({.dict = PyRef::Share(dict), .note = note});
    dict_tags_.push_back(
        {reinterpret_cast<PyDictObject*>(dict), VersionOfDict(dict)});
  }
  return dicts_[it->second];
}

void StateGuards::AddValue(PyObject* dict, PyObject* key, PyRef value,
                           const GuardNote& note) {
  DictFacts& facts = FactsOf(dict, note);
  if (facts.is_whole) return;
  if (!facts.index.try_emplace(key, facts.items.size()).second) return;
  facts.items.push_back(
      {.key = PyRef::Share(key), .value = std::move(value), .note = note});
}

void StateGuards::AddItem(PyObject* dict, PyObject* key,
                          const GuardNote& note) {
  AddValue(dict, key, PyRef::Share(FindItem(dict, key)), note);
}

void StateGuards::AddItemAs(PyObject* dict, PyObject* key, PyObject* value,
                            const GuardNote& note) {
  AddValue(dict, key, PyRef::Share(value), note);
  dict_tags_[dict_index_[dict]].version = 0;  // None has that.
}

PyObject* StateGuards::Noted(PyObject* holder, PyObject* key) const {
  const auto value = [](const PyRef& noted) {
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
  facts.contents = ContentsOf(dict);
  if (PyODict_Check(dict) && !facts.contents.empty()) {
    ordered_dicts_.push_back(dict_index_[dict]);
  }
}

void StateGuards::AddItems(PyObject* container, const GuardNote& note) {
  if (!IsNew(container)) return;
  ItemsFacts facts{.container = PyRef::Share(container), .note = note};
  ForEachItem(container, [&](PyObject* item) {
    facts.items.push_back(PyRef::Share(item));
    return true;
  });
  items_.push_back(std::move(facts));
}

bool StateGuards::HoldItems(PyObject* container) const {
  for (const ItemsFacts& facts : items_) {
    if (facts.container.get() == container) return CheckItems(facts, nullptr);
  }
  return false;
}

void StateGuards::AddInstance(PyObject* instance, const GuardNote& note) {
  if (!IsNew(instance)) return;
  instances_.push_back(
      {.instance = PyRef::Share(instance),
       .type = PyRef::Share(reinterpret_cast<PyObject*>(Py_TYPE(instance))),
       .dict = PyRef::Share(InstanceDict(instance)),
       .note = note});
}

void StateGuards::AddSlot(PyObject* owner, PyObject* member,
                          const GuardNote& note) {
  if (!known_slots_.insert({{owner, member}, 0}).second) return;
  slots_.push_back({.owner = PyRef::Share(owner),
                    .member = PyRef::Share(member),
                    .value = PyRef::Share(SlotValue(owner, member)),
                    .note = note});
}

size_t StateGuards::AddClass(PyTypeObject* type) {
  const auto [it, is_new] = class_index_.try_emplace(type, classes_.size());
  if (is_new) {
    classes_.push_back({.type = PyRef::Share(reinterpret_cast<PyObject*>(type)),
                        .dict = PyRef::Steal(PyDict_Copy(type->tp_dict))});
  }
  return it->second;
}

void StateGuards::AddType(PyTypeObject* type, const GuardNote& note) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return;
  if (!IsNew(reinterpret_cast<PyObject*>(type))) return;
  TypeFacts facts{.type = PyRef::Share(reinterpret_cast<PyObject*>(type)),
                  .mro = PyRef::Share(type->tp_mro),
                  .note = note};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base =
        reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) continue;
    facts.classes.push_back(AddClass(base));
  }
  facts.version = TypeVersion(type);
  types_.push_back(std::move(facts));
}

void StateGuards::AddFunction(PyObject* function, const GuardNote& note) {
  if (!IsNew(function)) return;
  const auto* value = reinterpret_cast<PyFunctionObject*>(function);
  functions_.push_back({.function = PyRef::Share(function),
                        .code = PyRef::Share(value->func_code),
                        .defaults = PyRef::Share(value->func_defaults),
                        .kwdefaults = PyRef::Share(value->func_kwdefaults),
                        .note = note});
  if (value->func_kwdefaults != nullptr) {
    AddDict(value->func_kwdefaults, note);
  }
}

void StateGuards::AddCell(PyObject* cell, const GuardNote& note) {
  if (!IsNew(cell)) return;
  cells_.push_back({.cell = PyRef::Share(cell),
                    .value = PyRef::Share(PyCell_GET(cell)),
                    .note = note});
}

void StateGuards::AddContextVar(PyObject* variable, const GuardNote& note) {
  if (!IsNew(variable)) return;
  context_vars_.push_back({.cell = PyRef::Share(variable),
                           .value = ContextValue(variable),
                           .note = note});
}

void StateGuards::AddWeakRef(PyObject* reference, const GuardNote& note) {
  if (!IsNew(reference)) return;
  weak_refs_.push_back({.cell = PyRef::Share(reference),
                        .value = PyRef::Share(PyWeakref_GetObject(reference)),
                        .note = note});
}

bool StateGuards::AddLock(PyObject* lock, const GuardNote& note) {
  if (!IsFreeLock(lock)) return false;
  if (IsNew(lock)) locks_.push_back({.cell = PyRef::Share(lock), .note = note});
  return true;
}

void StateGuards::AddTensor(PyObject* tensor, const GuardNote& note) {
  if (!IsNew(tensor)) return;
  tensors_.push_back({.tensor = PyRef::Share(tensor),
                      .meta = TensorMeta::Of(tensor),
                      .note = note});
}

bool StateGuards::AddArray(PyObject* array, const GuardNote& note) {
  if (known_.contains(array)) return true;
  ArrayFacts facts{.array = PyRef::Share(array), .note = note};
  Py_buffer view;
  absl::string_view bytes;
  if (!ReadArray(array, &facts.form, &bytes, &view)) return false;
  facts.bytes = std::string(bytes);
  PyBuffer_Release(&view);
  known_.insert({array, 0});
  arrays_.push_back(std::move(facts));
  return true;
}

void StateGuards::FindVarying(VaryingNumbers* varying,
                              std::vector<StatePlace>* slots) const {
  const auto differ = [](PyObject* was, PyObject* now) {
    return DifferInNumbers(was, now, "", nullptr);
  };
  for (const DictFacts& facts : dicts_) {
    PyObject* dict = facts.dict.get();
    for (const Item& item : facts.items) {
      PyObject* now = FindItem(dict, item.key.get());
      if (!differ(item.value.get(), now)) continue;
      if (IsNumber(now)) {
        varying->AddItem(dict, item.key.get());
      } else {
        slots->push_back({facts.dict, item.key, item.note});
      }
    }
  }
  for (const CellFacts& facts : cells_) {
    if (differ(facts.value.get(), PyCell_GET(facts.cell.get()))) {
      slots->push_back({facts.cell, PyRef(), facts.note});
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

void StateGuards::FindChangedLists(std::vector<StatePlace>* slots) const {
  for (const ItemsFacts& facts : items_) {
    PyObject* list = facts.container.get();
    if (!IsSlotList(list, facts.items.size()) || CheckItems(facts, nullptr)) {
      continue;
    }
    slots->push_back(StatePlace::OfList(list, facts.note));
  }
}

bool StateGuards::CheckBut(const Rewritten& rewritten, Miss* miss) {
  const size_t num_dicts = dict_tags_.size();
  for (size_t i = 0; i < num_dicts; ++i) {
    DictTag& tag = dict_tags_[i];
    const uint64_t now = DictVersion(tag.dict);
    if (now == tag.version) continue;
    if (!CheckDict(dicts_[i], rewritten, miss)) return false;
    if (rewritten.places.empty()) tag.version = now;
  }
  for (const size_t i : ordered_dicts_) {
    if (!CheckDict(dicts_[i], rewritten, miss)) return false;
  }
  for (const InstanceFacts& facts : instances_) {
    if (!CheckInstance(facts, miss)) return false;
  }
  for (TypeFacts& facts : types_) {
    if (!CheckType(facts, miss)) return false;
  }
  for (const FunctionFacts& facts : functions_) {
    if (!CheckFunction(facts, miss)) return false;
  }
  for (const CellFacts& facts : cells_) {
    PyObject* now = PyCell_GET(facts.cell.get());
    if (SameValue(facts.value.get(), now)) continue;
    if (rewritten.places.contains({facts.cell.get(), nullptr})) continue;
    return Report(miss, facts.note, DescribeValue(facts.value.get()),
                  DescribeValue(now));
  }
  for (const CellFacts& facts : weak_refs_) {
    PyObject* now = PyWeakref_GetObject(facts.cell.get());
    if (facts.value.get() == now) continue;
    return Report(miss, facts.note, DescribeValue(facts.value.get()),
                  DescribeValue(now));
  }
  for (const CellFacts& facts : locks_) {
    if (IsFreeLock(facts.cell.get())) continue;
    return Report(miss, facts.note, "a free lock", "one that is held");
  }
  for (const CellFacts& facts : context_vars_) {
    const PyRef now = ContextValue(facts.cell.get());
    if (SameValue(facts.value.get(), now.get())) continue;
    return Report(miss, facts.note, DescribeValue(facts.value.get()),
                  DescribeValue(now.get()));
  }
  for (const ItemsFacts& facts : items_) {
    if (rewritten.containers.contains(facts.container.get())) continue;
    if (!CheckItems(facts, miss)) return false;
  }
  for (const SlotFacts& facts : slots_) {
    PyObject* now = SlotValue(facts.owner.get(), facts.member.get());
    if (SameValue(facts.value.get(), now)) continue;
    return Report(miss, facts.note, DescribeValue(facts.value.get()),
                  DescribeValue(now));
  }
  for (const Tensor& facts : tensors_) {
    if (facts.meta.Matches(facts.tensor.get())) continue;
    return Report(miss, facts.note, facts.meta.ToString(),
                  DescribeValue(facts.tensor.get()));
  }
  for (const ArrayFacts& facts : arrays_) {
    if (!CheckArray(facts, miss)) return false;
  }
  return true;
}

bool StateGuards::CheckDict(const DictFacts& facts, const Rewritten& rewritten,
                            Miss* miss) const {
  PyObject* dict = facts.dict.get();
  for (const Item& item : facts.items) {
    PyObject* now = FindItem(dict, item.key.get());
    if (SameValue(item.value.get(), now)) continue;
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
    if (!SameValue(key.get(), now[i].first.get())) {
      return Report(miss, facts.note,
                    absl::StrCat("key ", DescribeValue(key.get())),
                    absl::StrCat("key ", DescribeValue(now[i].first.get())));
    }
    if (!SameValue(value.get(), now[i].second.get())) {
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
    same = count < size && SameValue(facts.items[count].get(), item);
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
  if (reinterpret_cast<PyObject*>(Py_TYPE(instance)) != facts.type.get()) {
    return Report(miss, facts.note, DescribeValue(facts.type.get()),
                  TypeName(Py_TYPE(instance)));
  }
  if (InstanceDict(instance) != facts.dict.get()) {
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
    if (!SameClassDict(known.dict.get(), base->tp_dict, &name, &expected,
                       &got)) {
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
  const auto visit_cells = [&](const std::vector<CellFacts>& cells) {
    for (const CellFacts& facts : cells) {
      Py_VISIT(facts.cell.get());
      Py_VISIT(facts.value.get());
    }
    return 0;
  };
  for (const DictFacts& facts : dicts_) {
    Py_VISIT(facts.dict.get());
    for (const Item& item : facts.items) {
      Py_VISIT(item.key.get());
      Py_VISIT(item.value.get());
    }
    for (const auto& [key, value] : facts.contents) {
      Py_VISIT(key.get());
      Py_VISIT(value.get());
    }
  }
  for (const ItemsFacts& facts : items_) {
    Py_VISIT(facts.container.get());
    for (const PyRef& item : facts.items) Py_VISIT(item.get());
  }
  for (const InstanceFacts& facts : instances_) {
    Py_VISIT(facts.instance.get());
    Py_VISIT(facts.type.get());
    Py_VISIT(facts.dict.get());
  }
  for (const SlotFacts& facts : slots_) {
    Py_VISIT(facts.owner.get());
    Py_VISIT(facts.member.get());
    Py_VISIT(facts.value.get());
  }
  for (const ClassFacts& facts : classes_) {
    Py_VISIT(facts.type.get());
    Py_VISIT(facts.dict.get());
  }
  for (const TypeFacts& facts : types_) {
    Py_VISIT(facts.type.get());
    Py_VISIT(facts.mro.get());
  }
  for (const FunctionFacts& facts : functions_) {
    Py_VISIT(facts.function.get());
    Py_VISIT(facts.code.get());
    Py_VISIT(facts.defaults.get());
    Py_VISIT(facts.kwdefaults.get());
  }
  for (const ArrayFacts& facts : arrays_) Py_VISIT(facts.array.get());
  for (const Tensor& facts : tensors_) Py_VISIT(facts.tensor.get());
  for (const auto* cells : {&cells_, &context_vars_, &weak_refs_, &locks_}) {
    if (const int stop = visit_cells(*cells)) return stop;
  }
  return 0;
}

int64_t StateGuards::num_facts() const {
  size_t count = items_.size() + instances_.size() + slots_.size() +
                 types_.size() + functions_.size() + cells_.size() +
                 context_vars_.size() + weak_refs_.size() + locks_.size() +
                 arrays_.size() + tensors_.size();
  for (const DictFacts& facts : dicts_) {
    count += facts.items.size() + (facts.is_whole ? 1 : 0);
  }
  return static_cast<int64_t>(count);
}

std::vector<std::string> StateGuards::ToText() const {
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
  for (const Tensor& facts : tensors_) {
    add(facts.note, absl::StrCat(" is ", facts.meta.ToString()));
  }
  for (const ArrayFacts& facts : arrays_) {
    add(facts.note, " has the same contents");
  }
  return lines;
}

}  // namespace mica
