// Whether what was noted of the state holds.

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hit_code.h"
#include "python/capture/guards/state_guards.h"
#include "python/capture/guards/state_reading.h"
#include "python/capture/known/asked_states.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/interpreter/gc_pause.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

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

// Whether what is in `same` of a constant, of its items if it is a tuple, is in
// an equal one.
bool KeepsSame(PyObject* was, PyObject* now,
               const absl::flat_hash_set<PyObject*>& same) {
  if (was == now) return true;
  if (same.contains(was)) return false;
  if (was == nullptr || now == nullptr || !PyTuple_Check(was)) return true;
  const Py_ssize_t size = PyTuple_GET_SIZE(was);
  if (!PyTuple_Check(now) || PyTuple_GET_SIZE(now) != size) return false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PyTuple_GET_ITEM(now, i);
    if (!KeepsSame(PyTuple_GET_ITEM(was, i), item, same)) return false;
  }
  return true;
}

// Whether all that the dict has is what torch.compile notes on tensors.
bool HasNotesOnly(PyObject* dict) {
  Py_ssize_t position = 0;
  PyObject *name = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &name, &value)) {
    if (!absl::StartsWith(PyText(name), "_dynamo_")) return false;
  }
  return true;
}

}  // namespace

bool IsConstructorName(PyObject* name) {
  return PyUnicode_CompareWithASCIIString(name, "__init__") == 0 ||
         PyUnicode_CompareWithASCIIString(name, "__setstate__") == 0;
}

bool StateGuards::IsSame(const Kept& was, PyObject* now) const {
  return was.Is(now) && (same_.empty() || KeepsSame(was.get(), now, same_));
}

MICA_HIT_CODE bool StateGuards::CheckBut(const Rewritten& rewritten,
                                         Miss* miss) {
  // What was found in its place stays there until it has been looked at.
  const GcPause pause;
  if (std::string path; any_gone() && IsGone(&path)) {
    if (miss != nullptr) *miss = Miss::OfGone(std::move(path));
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
    if (IsSame(facts.value, now)) return true;
    return Report(miss, facts.note, Describe(facts.value), DescribeValue(now));
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
      return is_same(facts, now);
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
    case Kind::kTensor:
      return CheckTensor(tensors_[fact.index], miss);
    case Kind::kClassOf:
      return CheckClassOf(classes_of_[fact.index], miss);
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

bool StateGuards::CheckTensor(const Tensor& facts, Miss* miss) const {
  PyObject* tensor = facts.tensor.get();
  return (Py_TYPE(tensor) == facts.type && facts.meta.Matches(tensor)) ||
         Report(miss, facts.note, facts.meta.ToString(), DescribeValue(tensor));
}

bool StateGuards::CheckClassOf(const ClassOfFacts& facts, Miss* miss) const {
  PyTypeObject* now = Py_TYPE(facts.object.get());
  return now == facts.type ||
         Report(miss, facts.note, TypeName(facts.type), TypeName(now));
}

bool StateGuards::CheckDict(const DictFacts& facts, const Rewritten& rewritten,
                            Miss* miss) const {
  PyObject* dict = facts.dict.get();
  for (const Item& item : facts.items) {
    PyObject* now = FindItem(dict, item.key.get());
    if (IsSame(item.value, now)) continue;
    if (rewritten.places.contains({dict, item.key.get()})) continue;
    return Report(miss, item.note, Describe(item.value), DescribeValue(now));
  }
  if (facts.has_keys && !CheckKeys(facts, rewritten, miss)) return false;
  if (!facts.is_whole) return true;
  const auto now = ContentsOf(dict);
  if (now.size() != facts.contents.size()) {
    return Report(miss, facts.note,
                  absl::StrCat(facts.contents.size(), " items"),
                  absl::StrCat(now.size(), " items"));
  }
  for (size_t i = 0; i < now.size(); ++i) {
    const auto& [key, value] = facts.contents[i];
    if (!IsSame(key, now[i].first.get())) {
      return Report(miss, facts.note, absl::StrCat("key ", Describe(key)),
                    absl::StrCat("key ", DescribeValue(now[i].first.get())));
    }
    if (!IsSame(value, now[i].second.get())) {
      GuardNote note = facts.note;
      absl::StrAppend(&note.path, "[", Describe(key), "]");
      return Report(miss, note, Describe(value),
                    DescribeValue(now[i].second.get()));
    }
  }
  return true;
}

bool StateGuards::CheckKeys(const DictFacts& facts, const Rewritten& rewritten,
                            Miss* miss) const {
  PyObject* dict = facts.dict.get();
  size_t count = 0;
  for (const PyRef& own : KeysOf(dict)) {
    PyObject* key = own.get();
    if (count < facts.keys.size() && IsSame(facts.keys[count], key)) {
      ++count;
    } else if (!rewritten.places.contains({dict, key})) {
      return Report(miss, facts.note,
                    count < facts.keys.size()
                        ? absl::StrCat("key ", Describe(facts.keys[count]))
                        : absl::StrCat(count, " keys"),
                    absl::StrCat("key ", DescribeValue(key)));
    }
  }
  return count == facts.keys.size() ||
         Report(miss, facts.note, absl::StrCat(facts.keys.size(), " keys"),
                absl::StrCat(count, " keys"));
}

bool StateGuards::CheckItems(const ItemsFacts& facts, Miss* miss) const {
  size_t count = 0;
  bool same = true;
  const size_t size = facts.items.size();
  ForEachItem(facts.container.get(), [&](PyObject* item) {
    same = count < size && IsSame(facts.items[count], item);
    if (!same) {
      GuardNote note = facts.note;
      absl::StrAppend(&note.path, "[", count, "]");
      Report(miss, note, count < size ? Describe(facts.items[count]) : "absent",
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
  PyObject* dict = InstanceDict(instance);
  // It may have got one since, without an item of the program's so far.
  if (dict != facts.dict.get() && (facts.dict || !HasNotesOnly(dict))) {
    return Report(miss, facts.note, "its own __dict__", "another __dict__");
  }
  return true;
}

bool StateGuards::CheckType(TypeFacts& facts, Miss* miss) {
  auto* type = reinterpret_cast<PyTypeObject*>(facts.type.get());
  const uint32_t now = type->tp_version_tag;
  if (now != 0 && now == facts.version) return true;
  const auto num_classes = static_cast<Py_ssize_t>(facts.mro.size());
  bool has_bases = PyTuple_GET_SIZE(type->tp_mro) == num_classes;
  for (Py_ssize_t i = 0; has_bases && i < num_classes; ++i) {
    has_bases = facts.mro[i].Is(PyTuple_GET_ITEM(type->tp_mro, i));
  }
  if (!has_bases) {
    return Report(miss, facts.note, "its base classes", "other base classes");
  }
  for (const size_t i : facts.classes) {
    if (!CheckClass(classes_[i], facts.note.at, miss)) return false;
  }
  facts.version = TypeVersion(type);
  return true;
}

bool StateGuards::CheckClass(const ClassFacts& facts, const UserLine& at,
                             Miss* miss) const {
  PyTypeObject* type = AsType(facts.type.get());
  const auto differ = [&](PyObject* name, const Kept& was, PyObject* now) {
    return Report(miss, {absl::StrCat(TypeName(type), ".", PyText(name)), at},
                  Describe(was), DescribeValue(now));
  };
  Py_ssize_t position = 0, num_known = 0;
  PyObject *name = nullptr, *value = nullptr;
  while (PyDict_Next(TypeDict(type), &position, &name, &value)) {
    PyObject* number = FindItem(facts.index.get(), name);
    num_known += number != nullptr ? 1 : 0;
    const ClassFacts::Attribute was =
        number == nullptr ? ClassFacts::Attribute()
                          : facts.attributes[PyLong_AsSize_t(number)];
    if (IsAttribute(facts, was, value)) continue;
    if (IsOfNoConcern(name, was.value, value)) continue;
    if (IsLibraryCounter(type, name)) continue;
    return differ(name, was.value, value);
  }
  // What is new and of no concern doesn't make up for what has gone.
  if (num_known == PyDict_GET_SIZE(facts.index.get())) return true;
  position = 0;
  while (PyDict_Next(facts.index.get(), &position, &name, &value)) {
    if (FindItem(TypeDict(type), name) != nullptr) continue;
    return differ(name, facts.attributes[PyLong_AsSize_t(value)].value,
                  nullptr);
  }
  return true;
}

bool StateGuards::IsOfNoConcern(PyObject* name, const Kept& was,
                                PyObject* now) const {
  const std::string text = PyText(name);
  // Python's, torch.compile's own notes on a class.
  if (text == "__slotnames__" || text == "__doc__" ||
      text == "___needs_generation_tag_patch") {
    return true;
  }
  if (demands_constructors_ || !IsConstructorName(name) ||
      !PyFunction_Check(now) || was.get() == nullptr || was.is_by_place() ||
      !PyFunction_Check(was.get())) {
    return false;
  }
  return absl::c_none_of(functions_, [&](const FunctionFacts& facts) {
    return facts.function.get() == was.get();
  });
}

bool StateGuards::IsAttribute(const ClassFacts& facts,
                              const ClassFacts::Attribute& was,
                              PyObject* now) const {
  if (!IsSame(was.value, now)) return false;
  if (!was.value.is_by_place()) return true;
  if (was.value.type() == &PyGetSetDescr_Type ||
      was.value.type() == &PyMemberDescr_Type) {
    return IsOwnDescriptor(AsType(facts.type.get()), now);
  }
  const std::vector<PyRef> parts = AttributeParts(now);
  for (size_t i = 0; i < was.parts.size(); ++i) {
    if (!was.parts[i].Is(parts[i].get())) return false;
  }
  return true;
}

bool StateGuards::CheckFunction(const FunctionFacts& facts, Miss* miss) const {
  const auto* now = reinterpret_cast<PyFunctionObject*>(facts.function.get());
  if (now->func_code != facts.code.get()) {
    return Report(miss, facts.note, "its code", "other code");
  }
  if (!IsSame(facts.defaults, now->func_defaults)) {
    return Report(miss, facts.note, "its default arguments", "others");
  }
  if (!facts.kwdefaults.Is(now->func_kwdefaults)) {
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

}  // namespace mica
