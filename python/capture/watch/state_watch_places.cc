#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/state_watch.h"

namespace mica {
namespace {

// The methods of lists, sets and deques that change them and give nothing.
bool IsMutator(PyObject* method) {
  static const auto* mutators = [] {
    auto* methods = new absl::flat_hash_set<PyMethodDef*>;
    const std::pair<PyTypeObject*, std::vector<const char*>> known[] = {
        {&PyList_Type, {"append", "clear", "extend", "insert", "reverse"}},
        {&PySet_Type, {"add", "clear", "discard"}},
        {DequeType(),
         {"append", "appendleft", "clear", "extend", "extendleft"}}};
    for (const auto& [type, names] : known) {
      for (const char* name : names) {
        if (type == nullptr) continue;
        PyRef found = PyRef::Steal(
            PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name));
        if (found && Py_TYPE(found.get()) == &PyMethodDescr_Type) {
          methods->insert(
              reinterpret_cast<PyMethodDescrObject*>(found.get())->d_method);
        }
      }
    }
    PyErr_Clear();
    return methods;
  }();
  if (PyCFunction_Check(method)) {
    return mutators->contains(
        reinterpret_cast<PyCFunctionObject*>(method)->m_ml);
  }
  if (Py_TYPE(method) != &PyMethodDescr_Type) return false;
  return mutators->contains(
      reinterpret_cast<PyMethodDescrObject*>(method)->d_method);
}

std::string MethodName(PyObject* method) {
  PyRef name = PyRef::Steal(PyObject_GetAttrString(method, "__name__"));
  if (!name) PyErr_Clear();
  return PyText(name.get());
}

bool IsSettingItem(PyObject* method) {
  return Py_TYPE(method) == &PyWrapperDescr_Type;
}

PyRef CopyOf(PyObject* container) {
  if (PyList_CheckExact(container)) {
    return PyRef::Steal(
        PyList_GetSlice(container, 0, PyList_GET_SIZE(container)));
  }
  return PyRef::Steal(PyObject_CallMethod(container, "copy", nullptr));
}

}  // namespace

PyRef StateWatch::Canonical(PyObject* key) {
  if (PyUnicode_CheckExact(key)) {
    PyObject* interned = key;
    Py_INCREF(interned);
    PyUnicode_InternInPlace(&interned);
    return PyRef::Steal(interned);
  }
  if (!keys_) keys_ = PyRef::Steal(PyDict_New());
  if (!keys_ || !PyLong_CheckExact(key)) return PyRef::Share(key);
  return PyRef::Share(PyDict_SetDefault(keys_.get(), key, key));
}

bool StateWatch::IsWritten(PyObject* holder, PyObject* key) const {
  return written_dicts_.contains(holder) &&
         written_keys_.contains({holder, key});
}

void StateWatch::WritePlace(PyObject* holder, PyRef key,
                            const std::string& path) {
  if (guards_.Noted(holder, key.get()) != nullptr) NoteChange(holder);
  written_dicts_.insert(holder);
  written_keys_.insert({holder, key.get()});
  written_.push_back({.holder = PyRef::Share(holder),
                      .key = std::move(key),
                      .note = NoteOf(path)});
}

void StateWatch::WriteCell(PyObject* cell, PyObject* name) {
  if (refusal_ || cell == nullptr || !PyCell_Check(cell) || !IsOld(cell)) {
    return;
  }
  if (RefusesLaterUse(cell, nullptr, PyText(name), Use::kWrite)) return;
  NoteLateUse(cell);
  if (IsWritten(cell, nullptr)) return;
  if (UseSpecially(cell, nullptr, PyText(name), Use::kWrite)) return;
  WritePlace(cell, PyRef(), PyText(name));
}

bool StateWatch::UseSpecially(PyObject* holder, PyObject* key,
                              const std::string& path, Use use) {
  if (slots_ != nullptr && slots_->Has(holder, key)) {
    if (use == Use::kRead) return true;  // Guarded as an argument.
    WritePlace(holder, PyRef::Share(key), path);
    return true;
  }
  const auto known = counter_index_.find({holder, key});
  Increment* counter =
      known == counter_index_.end() ? nullptr : &counters_[known->second];
  if (use == Use::kRead && addend_ != nullptr) {
    const StatePlace place{.holder = PyRef::Share(holder),
                           .key = PyRef::Share(key)};
    PyObject* now = place.Find();
    if (now == nullptr || !IsNumber(now) || !IsNumber(addend_) ||
        guards_.Noted(holder, key) != nullptr ||
        changed_by_call_.contains(holder) ||
        (varying_ != nullptr && key != nullptr &&
         varying_->HasItem(holder, key))) {
      return false;
    }
    if (counter == nullptr) {
      counter_index_[{holder, key}] = counters_.size();
      counter = &counters_.emplace_back();
      counter->place = place;
      counter->place.note = NoteOf(path);
      counter->before = PyRef::Share(now);
    }
    counter->addends.push_back(PyRef::Share(addend_));
    return took_addend_ = true;
  }
  if (counter == nullptr) return false;
  if (use == Use::kWrite && stores_sum_) return true;
  if (use == Use::kRead) {
    counter->is_read = true;
    return true;
  }
  Refuse(absl::StrCat("sets ", path, " after it added to it"));
  refusal_.transient = true;
  wanted_slots_.push_back(counter->place);
  return true;
}

bool StateWatch::FinishIncrements(std::vector<Increment>* increments,
                                  std::string* reason) {
  for (const Increment& increment : counters_) {
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
        wanted_slots_.push_back(increment.place);
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

bool StateWatch::ChangeContainer(PyObject* method,
                                 absl::Span<PyObject* const> args) {
  if (args.empty() || (!IsMutator(method) && !IsSettingItem(method))) {
    return false;
  }
  PyObject* container = args[0];
  const bool is_plain =
      PyList_CheckExact(container) || Py_IS_TYPE(container, &PySet_Type) ||
      (DequeType() != nullptr && Py_IS_TYPE(container, DequeType()));
  if (!is_plain || inputs_.contains(container) || !IsOld(container)) {
    return false;
  }
  NoteLateUse(container);
  const std::string name = MethodName(method);
  const bool is_first = !changed_containers_.contains(container);
  if (is_first && guards_.HasItems(container) &&
      !guards_.HoldItems(container)) {
    return false;  // Something else changed it before.
  }
  ContainerCall call{.method = PyRef::Share(method),
                     .container = PyRef::Share(container),
                     .num_args = args.size() - 1,
                     .note = NoteOf(PathOf(container))};
  if (IsSettingItem(method)) {
    // Raises for an index that isn't there.
    if (!is_first) return false;
    call.length = PyList_GET_SIZE(container);
  }
  for (PyObject* arg : args.subspan(1)) {
    PyRef value = PyRef::Share(arg);
    if (absl::StartsWith(name, "extend")) {
      // What it holds now.
      if (!PyList_CheckExact(arg) && !PyTuple_CheckExact(arg)) return false;
      value = PyRef::Steal(PySequence_Tuple(arg));
      if (!value) {
        PyErr_Clear();
        return false;
      }
    }
    // Python code of its own may say which of them are equal.
    if (PySet_Check(container) && !IsConstant(arg)) return false;
    if (PySet_Check(container)) TouchObject(arg, kDeepDepth);
    call.args.push_back(std::move(value));
  }
  if (!PySet_Check(container)) Move(method, args.subspan(1));
  if (is_first) {
    PyRef copy = CopyOf(container);
    if (!copy) {
      PyErr_Clear();
      return false;
    }
    if (!guards_.HasItems(container)) unread_containers_.insert(container);
    changed_containers_[container] = std::move(copy);
  }
  if (PyCFunction_Check(method)) {
    // Bound to the container: the class's own takes it as an argument.
    call.method = PyRef::Steal(PyObject_GetAttrString(
        reinterpret_cast<PyObject*>(Py_TYPE(container)), name.c_str()));
    if (!call.method) {
      PyErr_Clear();
      return false;
    }
  }
  container_calls_.push_back(std::move(call));
  return true;
}

bool StateWatch::IsOwnKey(PyObject* container, PyObject* key) {
  return values_.IsAddress(key) &&
         (PyDict_CheckExact(container) || Py_IS_TYPE(container, &PySet_Type)) &&
         !IsInput(container) && !IsOld(container);
}

bool StateWatch::KeepsAddress(PyObject* method,
                              absl::Span<PyObject* const> args) {
  if (args.size() != 2 || !IsOwnKey(args[0], args[1])) return false;
  const std::string name = MethodName(method);
  return PySet_Check(args[0]) &&
         (name == "add" || name == "discard" || name == "remove");
}

void StateWatch::WantList(PyObject* container) {
  const auto before = changed_containers_.find(container);
  if (before == changed_containers_.end() || !PyList_CheckExact(container) ||
      !IsSlotList(container,
                  static_cast<size_t>(PyList_GET_SIZE(before->second.get())))) {
    return;
  }
  wanted_slots_.push_back(
      StatePlace::OfList(container, {.path = PathOf(container)}));
  if (refusal_) refusal_.transient = true;
}

bool StateWatch::CheckContainers(std::string* reason) {
  for (const auto& [container, before] : changed_containers_) {
    PyRef copy = CopyOf(before.get());
    bool is_same = static_cast<bool>(copy);
    for (const ContainerCall& call : container_calls_) {
      if (!is_same || call.container.get() != container) continue;
      is_same = call.Make(copy.get(), call.args);
    }
    PyRef want = is_same ? PyRef::Steal(PySequence_List(copy.get())) : PyRef();
    PyRef got = PyRef::Steal(PySequence_List(container));
    is_same = want && got &&
              PyList_GET_SIZE(want.get()) == PyList_GET_SIZE(got.get());
    for (Py_ssize_t i = 0; is_same && i < PyList_GET_SIZE(want.get()); ++i) {
      is_same = PyList_GET_ITEM(want.get(), i) == PyList_GET_ITEM(got.get(), i);
    }
    PyErr_Clear();
    if (is_same) continue;
    WantList(container);
    *reason = absl::StrCat("changes ", PathOf(container),
                           " in ways that aren't known");
    return false;
  }
  return true;
}

// Of a packed sequence: the program's shapes follow from their values.
void StateWatch::ReadLengths(PyObject* lengths) {
  if (!IsTensor(lengths)) return TouchObject(lengths, kDeepDepth);
  if (ReadNumbers(lengths)) return;
  Refuse("reads the lengths of many sequences on the host",
         "pad the sequences instead");
}

}  // namespace mica
