#include "python/capture/watch/item_watch.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "python/capture/known/purity.h"
#include "python/capture/known/stand_ins.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/numbers.h"
#include "python/capture/values/sequences.h"
#include "python/capture/watch/object_kinds.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// [:], however many items there are.
bool IsWholeSlice(PyObject* key) {
  if (!PySlice_Check(key)) return false;
  const auto* slice = reinterpret_cast<PySliceObject*>(key);
  return slice->start == Py_None && slice->stop == Py_None &&
         slice->step == Py_None;
}

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

// What methods change that are made again.
bool IsPlainContainer(PyObject* container) {
  return PyList_CheckExact(container) || Py_IS_TYPE(container, &PySet_Type) ||
         IsDeque(container);
}

bool IsItemKey(PyObject* key) {
  return PyUnicode_CheckExact(key) || PyLong_CheckExact(key);
}

}  // namespace

// Its class says what an item of it is, and may be assigned.
void ItemWatch::TouchDictClass(PyObject* dict) {
  objects_.TouchType(Py_TYPE(dict));
  if (IsPythonClass(Py_TYPE(dict))) objects_.TouchClassOf(dict);
}

// What says which number it is by __index__() may be an object of any class.
void ItemWatch::TouchBounds(PyObject* key) {
  if (PyTuple_Check(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
      PyObject* part = PyTuple_GET_ITEM(key, i);
      if (PySlice_Check(part)) TouchBounds(part);
    }
  }
  if (!PySlice_Check(key)) return;
  const auto* slice = reinterpret_cast<PySliceObject*>(key);
  for (PyObject* bound : {slice->start, slice->stop, slice->step}) {
    if (!IsConstant(bound)) objects_.Touch(bound);
  }
}

// Nobody else has the number: what is there by it, the run put there.
bool ItemWatch::UseHook(PyObject* container, PyObject* key, PlaceUse use) {
  if (!handles_.IsId(key) || !HasPlainItems(container)) return false;
  if (!IsOld(container) || use == PlaceUse::kRead) return true;
  if (RefusesLaterChange(container)) return true;
  last_calls_.NoteUse(container);
  TouchDictClass(container);
  places_.UseItem(container, key,
                  absl::StrCat(PathOf(container), "[a hook's number]"), use);
  return true;
}

void ItemWatch::Use(PyObject* container, PyObject* key) {
  if (refusal() || identity_.IsOwnKey(container, key) ||
      UseHook(container, key, PlaceUse::kRead)) {
    return;
  }
  last_calls_.NoteUse(container);
  identity_.LookFor(key);
  step_.is_making_tensor = true;  // tensor[[0, 2]], tensor[0] = 3.
  step_.makes_array = IsArray(container);
  const bool is_place =
      IsTensor(container) && numbers_.PassPlaces(container, key);
  if (!is_place) values_.MarkExactDeep(key);
  if (!IsConstant(key)) identity_.Identify(key);
  if (is_place) return objects_.Touch(container);
  TouchBounds(key);
  // tensor[:, self.index]: the tuple is new, what is in it isn't.
  const bool is_index = IsTensor(container) && PyTuple_CheckExact(key);
  if (PyTuple_Check(key) && !is_index) {
    objects_.Inspect(key);  // Hashed and compared by what is in it.
  } else {
    objects_.Touch(key, is_index ? kDeep : kShallow);
  }
  if (is_index && HoldsListsOfTensors(key)) {
    return Refuse("makes an index of what is in tensors", "use torch.stack()");
  }
  if (PyDict_Check(container) && IsItemKey(key)) {
    TouchDictClass(container);
    if (!IsOld(container)) return;
    // An int is in memory that is too short to ask it for what strings have.
    if (PyUnicode_CheckExact(key) && PyUnicode_CHECK_INTERNED(key) &&
        places_.IsKnown(container, key)) {
      return;
    }
    places_.UseItem(container, key, names_.ItemPath(PathOf(container), key),
                    PlaceUse::kRead);
    return;
  }
  objects_.Touch(container);
}

PyRef ItemWatch::InPlaceOf(PyObject* container, PyObject* key) {
  if (refusal() || !PyDict_Check(container)) return PyRef();
  const PyRef factory = FactoryOf(container);
  if (!factory || factory.get() == Py_None) return PyRef();
  const int has = PyDict_Contains(container, key);
  if (has < 0) PyErr_Clear();  // Raises.
  if (has != 0) return PyRef();
  // What C code puts into the run's own is seen there.
  const bool is_seen = !IsOld(container) && !PyFunction_Check(factory.get());
  return is_seen ? PyRef() : FillingItems(container);
}

// A dict's item, or one of a tensor, a list or what else has items.
void ItemWatch::Write(PyObject* container, PyObject* key, PyObject* value) {
  if (refusal()) return;
  // Code in C may call it.
  if (handles_.IsId(key)) objects_.Touch(value, kDeep);
  if (identity_.IsOwnKey(container, key) ||
      UseHook(container, key, PlaceUse::kWrite)) {
    return;
  }
  if (!IsTensor(container) && RefusesLaterChange(container)) return;
  last_calls_.NoteUse(container);
  numbers_.StoreItem(container, value);
  if (!IsTensor(container)) values_.MarkExactDeep(key);
  if (!IsConstant(key)) identity_.Identify(key);
  if (HasPlainItems(container) && IsItemKey(key)) {
    if (!IsOld(container)) return;
    TouchDictClass(container);
    return places_.UseItem(container, key,
                           names_.ItemPath(PathOf(container), key),
                           PlaceUse::kWrite);
  }
  if (PyList_CheckExact(container) && PyLong_CheckExact(key)) {
    static PyObject* method = PyObject_GetAttrString(
        reinterpret_cast<PyObject*>(&PyList_Type), "__setitem__");
    if (ChangeContainer(method, {container, key, value})) return;
  }
  Use(container, key);
  // A tensor's item is written by the Program. Else no effect makes this again:
  // it has to leave what was there.
  if (refusal() || !IsOld(container) || IsTensor(container)) return;
  values_.MarkExactDeep(value);
  if (!PyDict_Check(container)) return;
  PyObject* before = PyDict_GetItemWithError(container, key);
  if (before == nullptr) return PyErr_Clear();
  values_.MarkExactDeep(before);
}

void ItemWatch::Remove(PyObject* container, PyObject* key) {
  if (refusal() || identity_.IsOwnKey(container, key) ||
      UseHook(container, key, PlaceUse::kRemove)) {
    return;
  }
  if (RefusesLaterChange(container)) return;
  last_calls_.NoteUse(container);
  values_.MarkExactDeep(key);
  if (PyDict_CheckExact(container) && IsItemKey(key)) {
    if (!IsOld(container)) return;
    return places_.UseItem(container, key,
                           names_.ItemPath(PathOf(container), key),
                           PlaceUse::kRemove);
  }
  if (PyList_CheckExact(container) && IsWholeSlice(key)) {  // del items[:]
    static PyObject* clear = PyObject_GetAttrString(
        reinterpret_cast<PyObject*>(&PyList_Type), "clear");
    if (ChangeContainer(clear, {&container, 1})) return;
  }
  // Which a dict of another class has in an order of its own.
  if (PyDict_Check(container)) objects_.Touch(container);
  Use(container, key);
}

void ItemWatch::UseBy(PyObject* method, absl::Span<PyObject* const> args) {
  PyObject *dict = args[0], *key = args[1];
  PyObject* value = args.size() > 2 ? args[2] : nullptr;
  if (value != nullptr && !IsScalar(value)) objects_.Touch(value);
  const std::string name = CallableName(method);
  if (absl::EndsWith(name, "__delitem__")) return Remove(dict, key);
  const bool is_set = absl::EndsWith(name, "__setitem__");
  if (!is_set) Use(dict, key);
  const bool is_pop = absl::EndsWith(name, ".pop");
  const bool is_default = absl::EndsWith(name, ".setdefault");
  if (refusal() || !(is_set || is_pop || is_default)) return;
  const int has = PyDict_Check(dict) ? PyDict_Contains(dict, key) : 0;
  if (has < 0) return PyErr_Clear();  // Raises.
  if (is_pop && has != 0) return Remove(dict, key);
  if (is_pop || (is_default && has != 0)) return;
  if (value == nullptr) value = Py_None;
  numbers_.Store(dict, value);
  Write(dict, key, value);
}

void ItemWatch::Move(PyObject* callable, absl::Span<PyObject* const> args) {
  const std::string name = CallableName(callable);
  const bool takes_index =
      absl::EndsWith(name, ".pop") || absl::EndsWith(name, ".rotate");
  for (size_t i = 0; i < args.size(); ++i) {
    // What is moved comes last.
    const bool is_moved = i + 1 == args.size() && !takes_index;
    if (is_moved && args[i] != nullptr && IsScalar(args[i])) continue;
    objects_.Touch(args[i]);
  }
}

bool ItemWatch::KeepsAddress(PyObject* method,
                             absl::Span<PyObject* const> args) {
  if (args.size() != 2 || !identity_.IsOwnKey(args[0], args[1])) return false;
  const std::string name = MethodName(method);
  return PySet_Check(args[0]) &&
         (name == "add" || name == "discard" || name == "remove");
}

bool ItemWatch::ChangeContainer(PyObject* method,
                                absl::Span<PyObject* const> args) {
  if (args.empty() || (!IsMutator(method) && !IsSettingItem(method))) {
    return false;
  }
  PyObject* container = args[0];
  if (!IsPlainContainer(container) || IsInput(container) || !IsOld(container)) {
    return false;
  }
  last_calls_.NoteUse(container);
  const std::string name = MethodName(method);
  const bool is_first = !containers_.Has(container);
  if (is_first && guards_.HasItems(container) &&
      !guards_.HoldItems(container)) {
    return false;  // Something else changed it before.
  }
  ContainerCall call{.method = PyRef::Share(method),
                     .container = PyRef::Share(container),
                     .num_args = args.size() - 1,
                     .adds_to_read = !PySet_Check(container) &&
                                     guards_.HasItems(container) &&
                                     (name == "append" || name == "extend"),
                     .note = NoteOf(PathOf(container))};
  if (IsSettingItem(method)) {
    // Raises for an index that isn't there.
    if (!is_first) return false;
    call.length = PyList_GET_SIZE(container);
  }
  for (PyObject* arg : args.subspan(1)) {
    PyRef value = ArgumentOfChange(container, name, arg);
    if (!value) return false;
    call.args.push_back(std::move(value));
  }
  if (!PySet_Check(container)) Move(method, args.subspan(1));
  if (is_first && !containers_.Begin(container)) return false;
  if (PyCFunction_Check(method)) {
    // Bound to the container: the class's own takes it as an argument.
    call.method = PyRef::Steal(PyObject_GetAttrString(
        reinterpret_cast<PyObject*>(Py_TYPE(container)), name.c_str()));
    if (!call.method) {
      PyErr_Clear();
      return false;
    }
  }
  containers_.Add(std::move(call));
  return true;
}

PyRef ItemWatch::ArgumentOfChange(PyObject* container,
                                  const std::string& method, PyObject* arg) {
  PyRef value = PyRef::Share(arg);
  if (absl::StartsWith(method, "extend")) {
    // What it holds now.
    if (!PyList_CheckExact(arg) && !PyTuple_CheckExact(arg)) return PyRef();
    value = PyRef::Steal(PySequence_Tuple(arg));
    if (!value) {
      PyErr_Clear();
      return value;
    }
  }
  if (!PySet_Check(container)) return value;
  // Python code of its own may say which of them are equal.
  if (!IsConstant(arg)) return PyRef();
  objects_.Touch(arg, kDeep);
  return value;
}

}  // namespace mica
