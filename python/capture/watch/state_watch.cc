#include "python/capture/watch/state_watch.h"

#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "python/capture/known/purity.h"
#include "python/capture/serve/compiled.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/frame_hook.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

// Kinds of object that hold nothing that a program could change unseen.
bool IsInert(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyTuple_Type) return IsConstant(object);
  return IsConstant(object) || type == &PyCode_Type ||
         type == &PyFrozenSet_Type || IsImmutableType(type);
}

bool IsLock(PyObject* object) {
  const absl::string_view name = Py_TYPE(object)->tp_name;
  return name == "_thread.lock" || name == "_thread.RLock";
}

bool IsItemKey(PyObject* key) {
  return PyUnicode_CheckExact(key) || PyLong_CheckExact(key);
}

PyObject* ModuleDict(PyObject* module) { return PyModule_GetDict(module); }

}  // namespace

GuardNote StateWatch::NoteOf(std::string path) const {
  return {.path = std::move(path), .at = CurrentUserLine()};
}

std::string StateWatch::PathOf(PyObject* object) const {
  if (const auto it = names_.find(object); it != names_.end()) {
    return it->second;
  }
  if (const auto it = paths_.find(object); it != paths_.end()) {
    return it->second;
  }
  return absl::StrCat("<", DescribeValue(object), ">");
}

std::string StateWatch::ItemPath(const std::string& owner,
                                 PyObject* key) const {
  // A module's "_parameters['weight']" reads better as ".weight".
  for (const char* suffix : {"._parameters", "._buffers", "._modules"}) {
    if (absl::EndsWith(owner, suffix) && PyUnicode_Check(key)) {
      const std::string base(absl::StripSuffix(owner, suffix));
      return base.empty() ? PyText(key) : absl::StrCat(base, ".", PyText(key));
    }
  }
  if (absl::EndsWith(owner, ".__dict__") && PyUnicode_Check(key)) {
    const std::string base(absl::StripSuffix(owner, ".__dict__"));
    return base.empty() ? PyText(key) : absl::StrCat(base, ".", PyText(key));
  }
  const std::string text = IsConstant(key) ? DescribeValue(key) : PathOf(key);
  return absl::StrCat(owner, "[", text, "]");
}

std::string StateWatch::TensorName(PyObject* tensor) const {
  return PathOf(tensor);
}

void StateWatch::AddName(PyObject* object, std::string name) {
  names_.try_emplace(object, std::move(name));
}

void StateWatch::NameModule(PyObject* object, const std::string& prefix,
                            int depth) {
  constexpr int kMaxModuleDepth = 64;
  if (depth > kMaxModuleDepth || !IsPythonClass(Py_TYPE(object))) return;
  PyObject* dict = InstanceDict(object);
  if (dict == nullptr) return;
  PyObject* groups[] = {PyDict_GetItemString(dict, "_parameters"),
                        PyDict_GetItemString(dict, "_buffers"),
                        PyDict_GetItemString(dict, "_modules")};
  for (PyObject* group : groups) {
    if (group == nullptr || !PyDict_Check(group)) return;
  }
  if (!named_modules_.insert(object).second) return;
  pins_.push_back(PyRef::Share(object));
  for (PyObject* group : groups) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(group, &position, &key, &value)) {
      if (value == Py_None) continue;
      const std::string name =
          prefix.empty() ? PyText(key) : absl::StrCat(prefix, ".", PyText(key));
      AddName(value, name);
      if (group == groups[2]) NameModule(value, name, depth + 1);
    }
  }
}

void StateWatch::AddRoot(PyObject* object, std::string path) {
  MarkOld(object, path);
}

void StateWatch::Refuse(std::string reason, std::string mend) {
  if (refusal_) return;
  refusal_ = {.reason = std::move(reason),
              .mend = std::move(mend),
              .at = CurrentUserLine(),
              .transient = IsSettingUp(caller_),
              .places = {SitesBelow(caller_)}};
}

void StateWatch::NoteChange(PyObject* container) {
  if (RefusesLaterChange(container)) return;
  constexpr size_t kMaxChanges = 32;
  if (!looks_on_ || changes_.size() >= kMaxChanges || !IsOld(container)) return;
  changes_.push_back(SitesBelow(caller_));
}

bool StateWatch::LookOn() {
  constexpr size_t kMaxRefusals = 32;
  if (!looks_on_ || refused_.size() >= kMaxRefusals) return false;
  refused_.push_back(std::move(refusal_));
  refusal_ = Refusal();
  return true;
}

std::vector<FrameSites> StateWatch::RefusedPlaces() const {
  std::vector<FrameSites> places;
  for (const Refusal& refusal : refused_) {
    places.insert(places.end(), refusal.places.begin(), refusal.places.end());
  }
  places.insert(places.end(), refusal_.places.begin(), refusal_.places.end());
  return places;
}

void StateWatch::MarkOld(PyObject* object, const std::string& path) {
  if (object == nullptr || IsConstant(object)) return;
  if (inputs_.contains(object)) {
    state_inputs_.insert(object);
    return;
  }
  if (IsTensor(object) && !old_.contains(object)) {
    state_tensors_.push_back(PyRef::Share(object));
  }
  if (!old_.insert(object).second) return;
  pins_.push_back(PyRef::Share(object));
  paths_.try_emplace(object, path);
  NameModule(object, path);
  if (PyTuple_Check(object)) MarkContents(object);
  if (PyWeakref_Check(object)) {
    PyObject* referent = PyWeakref_GET_OBJECT(object);
    if (inputs_.contains(referent)) state_inputs_.insert(referent);
    if (referent != Py_None) weakly_held_.insert(referent);
  }
}

bool StateWatch::IsOld(PyObject* object) {
  if (old_.contains(object)) return true;
  if (inputs_.contains(object)) return false;
  if (!PyObject_IS_GC(object)) return !young_.contains(object);
  if (!PyObject_GC_IsTracked(object)) {
    // An empty or atomic dict that nothing old led to, or a tuple: whoever
    // made it, it came from this run's own code.
    return !PyDict_Check(object) && !PyTuple_Check(object);
  }
  if (young_.contains(object)) return false;
  if (age_.Of(object) == AgeMark::Age::kYounger) {
    young_.insert(object);
    return false;
  }
  old_.insert(object);
  pins_.push_back(PyRef::Share(object));
  return true;
}

void StateWatch::EnterFunction(PyObject* function) {
  if (refusal_ || function == nullptr) return;
  // Called from C code: nobody saw the arguments.
  if (const CallAnnotation* known = FindAnnotation(function)) {
    if (known->kind != CallKind::kPure || !known->changed.empty()) {
      const bool ends = known->kind == CallKind::kEndsGraph;
      return Refuse(ends ? known->reason
                         : absl::StrCat("calls ", CallableName(function),
                                        ", annotated, from code in C"));
    }
  }
  if (!IsOld(function)) return;
  if (!IsFirst(function, nullptr)) return;
  const std::string name =
      PyText(reinterpret_cast<PyFunctionObject*>(function)->func_qualname);
  if (KindOfFunction(function) == FunctionKind::kSetsUpAnother) {
    Refuse("calls a function of torch's that sets itself up at its first call");
    refusal_.transient = true;
    return;
  }
  guards_.AddFunction(function, NoteOf(name));
  const auto* value = reinterpret_cast<PyFunctionObject*>(function);
  if (value->func_defaults != nullptr) {
    MarkOld(value->func_defaults, absl::StrCat(name, ".__defaults__"));
  }
  if (value->func_kwdefaults != nullptr) {
    MarkOld(value->func_kwdefaults, absl::StrCat(name, ".__kwdefaults__"));
    MarkContents(value->func_kwdefaults);
  }
}

void StateWatch::ReadGlobal(PyObject* globals, PyObject* builtins,
                            PyObject* name) {
  if (refusal_) return;
  NoteLateGlobal(globals, builtins, name);
  if (refusal_ || IsKnown(globals, name)) return;
  const std::string text = PyText(name);
  for (PyObject* dict : {globals, builtins}) {
    if (dict == nullptr) continue;
    if (!PyDict_CheckExact(dict)) {
      return Refuse("runs code whose globals aren't a plain dict");
    }
    if (!IsOld(dict)) return;
    UseDictItem(dict, name, text, Use::kRead);
    if (PyDict_GetItemWithError(dict, name) != nullptr) return;
  }
}

void StateWatch::WriteGlobal(PyObject* globals, PyObject* name) {
  if (refusal_ || !IsOld(globals)) return;
  NoteLateUse(globals);
  UseDictItem(globals, name, PyText(name), Use::kWrite);
}

void StateWatch::ReadCell(PyObject* cell, PyObject* name) {
  if (refusal_ || cell == nullptr || !PyCell_Check(cell) || !IsOld(cell)) {
    return;
  }
  NoteLateRead(PyCell_GET(cell), PyText(name));
  if (RefusesLaterUse(cell, nullptr, PyText(name), Use::kRead)) return;
  if (IsWritten(cell, nullptr)) return;
  if (UseSpecially(cell, nullptr, PyText(name), Use::kRead)) return;
  guards_.AddCell(cell, NoteOf(PyText(name)));
  MarkOld(PyCell_GET(cell), PyText(name));
}

void StateWatch::ReadAttribute(PyObject* owner, PyObject* name) {
  UseAttribute(owner, name, Use::kRead);
}

void StateWatch::WriteAttribute(PyObject* owner, PyObject* name) {
  UseAttribute(owner, name, Use::kWrite);
}

void StateWatch::RemoveAttribute(PyObject* owner, PyObject* name) {
  UseAttribute(owner, name, Use::kRemove);
}

void StateWatch::UseDictItem(PyObject* dict, PyObject* key,
                             const std::string& path, Use use) {
  const PyRef name = Canonical(key);
  if (!name) return PyErr_Clear();
  key = name.get();
  if (RefusesLaterUse(dict, key, path, use)) return;
  if (use == Use::kRemove) removed_keys_.insert({dict, key});
  if (IsWritten(dict, key)) return;  // Its value is the run's.
  const bool is_plain = PyDict_CheckExact(dict);
  if (is_plain && UseSpecially(dict, key, path, use)) return;
  if (use != Use::kRead && is_plain) {
    // Removing it asks whether it is there.
    if (use == Use::kRemove) AddItem(dict, key, NoteOf(path));
    return WritePlace(dict, name, path);
  }
  AddItem(dict, key, NoteOf(path));
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (value == nullptr && PyErr_Occurred()) PyErr_Clear();
  if (value != nullptr) MarkOld(value, path);
}

void StateWatch::UseAttribute(PyObject* owner, PyObject* name, Use use) {
  if (refusal_) return;
  const bool is_write = use != Use::kRead;
  if (!PyUnicode_Check(name)) return;  // The program will raise.
  if (is_write && RefusesLaterChange(owner)) return;
  if (later_ != nullptr && IsInput(owner) && !IsTensor(owner)) {
    return Refuse("reads an argument that isn't a tensor");
  }
  if (values_.Find(owner) >= 0) return values_.MarkExact(owner);
  if (use == Use::kWrite && stored_ != nullptr) {
    StoreAttribute(owner, name, stored_);
  }
  if (PyObject* inner = UnwrapCompiled(owner)) {
    return UseAttribute(inner, name, use);
  }
  PyTypeObject* type = Py_TYPE(owner);
  is_write ? NoteLateUse(owner) : NoteLateAttribute(owner, name);
  TouchType(type);
  if (old_.contains(owner) && !is_write && IsKnown(owner, name)) return;
  TouchClassOf(owner);
  if (PyModule_Check(owner)) {
    PyObject* dict = ModuleDict(owner);
    const std::string base = PathOf(owner);
    const std::string path = absl::StrCat(base, ".", PyText(name));
    MarkOld(dict, absl::StrCat(base, ".__dict__"));
    UseDictItem(dict, name, path, use);
    if (use == Use::kWrite) return;
    if (PyDict_GetItemWithError(dict, name) != nullptr) return;
    static PyObject* getattr = Interned("__getattr__");
    AddItem(dict, getattr, NoteOf(absl::StrCat(base, ".__getattr__")));
    return;
  }
  if (PyType_Check(owner)) {
    TouchType(AsType(owner));
    for (PyTypeObject* place : {AsType(owner), type}) {
      PyObject* value = _PyType_Lookup(place, name);
      if (value == nullptr) continue;
      return MarkOld(value, absl::StrCat(TypeName(place), ".", PyText(name)));
    }
    return;
  }
  if (IsTensor(owner)) {
    if (is_write) {
      const std::string word = PyText(name);
      if (word == "grad") return TouchGradient(owner);
      const bool is_own =
          !IsOld(owner) && !IsInput(owner) && !gradients_.IsOldGradient(owner);
      // Of a new tensor, what says no more than Python's own dict.
      if (is_own &&
          (word == "requires_grad" || _PyType_Lookup(type, name) == nullptr)) {
        return;
      }
      if (word == "requires_grad" && use == Use::kWrite &&
          stored_ == (RequiresGrad(owner) ? Py_True : Py_False)) {
        return Touch(owner);  // It stays as it is.
      }
      if ((word == "real" || word == "imag") && use == Use::kWrite) {
        values_.MarkExactDeep(stored_);
        return Touch(owner);  // A copy to the parts, which the recorder sees.
      }
      return Refuse(
          absl::StrCat("sets attribute ", PyText(name), " of a tensor"),
          "set it outside the compiled function");
    }
    if (!ReadTensorAttribute(owner, name)) return;
  }
  if (PyTypeObject* search = SuperType(owner); search != nullptr) {
    TouchType(search);
    if (PyObject* self = SuperObjectOf(owner)) TouchClassOf(self);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(search->tp_mro); ++i) {
      PyTypeObject* base = AsType(PyTuple_GET_ITEM(search->tp_mro, i));
      PyObject* value = PyDict_GetItemWithError(base->tp_dict, name);
      MarkOld(value, absl::StrCat(TypeName(base), ".", PyText(name)));
    }
    return;
  }
  const bool walks_array =
      absl::string_view(type->tp_name) == "numpy.nditer" && !IsOld(owner);
  if ((IsArray(owner) || walks_array) && !is_write) {
    const std::string word = PyText(name);
    takes_from_array_ = word != "base" && word != "ctypes" && word != "data";
  }
  if (PyCFunction_Check(owner)) {
    SelfOfCall(owner);
    return;
  }
  if (PyMethod_Check(owner)) {
    return UseAttribute(PyMethod_GET_FUNCTION(owner), name, use);
  }
  if (PyFunction_Check(owner)) {
    if (!IsOld(owner)) return;
    if (FindAnnotation(owner) == nullptr) {
      EnterFunction(owner);
    } else {
      guards_.AddFunction(owner, NoteOf(PathOf(owner)));
    }
    const auto* function = reinterpret_cast<PyFunctionObject*>(owner);
    MarkOld(function->func_globals,
            absl::StrCat(PathOf(owner), ".__globals__"));
    MarkOld(function->func_closure,
            absl::StrCat(PathOf(owner), ".__closure__"));
    PyRef dict = PyRef::Steal(PyObject_GenericGetDict(owner, nullptr));
    if (!dict) return PyErr_Clear();
    const std::string path = absl::StrCat(PathOf(owner), ".", PyText(name));
    MarkOld(dict.get(), absl::StrCat(PathOf(owner), ".__dict__"));
    AddItem(dict.get(), name, NoteOf(path));
    PyObject* value = PyDict_GetItemWithError(dict.get(), name);
    if (value != nullptr) return MarkOld(value, path);
    return MarkHeldDict(owner, name);  // As __annotations__.
  }
  if (PyCell_Check(owner)) {
    static PyObject* contents = Interned("cell_contents");
    return ReadCell(owner, contents);
  }
  UseInstanceAttribute(owner, name, use);
}

// The age of a dict that the collector doesn't track is that of what it was
// reached by.
void StateWatch::MarkHeldDict(PyObject* owner, PyObject* name) {
  const PyRef value = PyRef::Steal(PyObject_GetAttr(owner, name));
  if (!value) return PyErr_Clear();
  if (PyDict_CheckExact(value.get())) {
    MarkOld(value.get(), absl::StrCat(PathOf(owner), ".", PyText(name)));
  }
}

// Notes how `descriptor`, found on the class, answers. False if the instance's
// own dict has the word.
bool StateWatch::UseDescriptor(PyObject* owner, PyObject* name,
                               PyObject* descriptor) {
  PyTypeObject* kind = Py_TYPE(descriptor);
  if (kind == &PyMemberDescr_Type) {
    const std::string path = absl::StrCat(PathOf(owner), ".", PyText(name));
    if (!IsPythonClass(Py_TYPE(owner))) {  // Of a C type.
      MarkHeldDict(owner, name);
      return true;
    }
    guards_.AddSlot(owner, descriptor, NoteOf(path));
    MarkOld(SlotValue(owner, descriptor), path);
    return true;
  }
  if (kind == &PyGetSetDescr_Type) {
    static PyObject* own = Interned("__dict__");
    static PyObject* type = Interned("__class__");
    if (name == own) {
      PyObject* dict = InstanceDict(owner);
      guards_.AddInstance(owner, NoteOf(PathOf(owner)));
      MarkOld(dict, absl::StrCat(PathOf(owner), ".__dict__"));
      return true;
    }
    if (name == type) {
      guards_.AddInstance(owner, NoteOf(PathOf(owner)));
      return true;
    }
    if (IsArray(owner)) {
      Touch(owner);
      return true;
    }
    if (IsImmutableType(SolidBase(Py_TYPE(owner))) ||
        PyExceptionInstance_Check(owner)) {
      MarkHeldDict(owner, name);
      return true;
    }
    Refuse(absl::StrCat("reads ", TypeName(Py_TYPE(owner)), ".", PyText(name),
                        ", which C code computes"));
    return true;
  }
  if (kind == &PyProperty_Type) {
    PyRef getter = PyRef::Steal(PyObject_GetAttrString(descriptor, "fget"));
    if (!getter) PyErr_Clear();
    if (getter && getter.get() != Py_None) Call(getter.get(), {&owner, 1});
  }
  return kind->tp_descr_set != nullptr;  // Its code is followed.
}

void StateWatch::UseInstanceAttribute(PyObject* owner, PyObject* name,
                                      Use use) {
  const bool is_write = use != Use::kRead;
  PyTypeObject* type = Py_TYPE(owner);
  if (IsInert(owner) && !is_write) return;
  if (!IsOld(owner)) {
    // What its class holds may be older than it.
    PyObject* held = _PyType_Lookup(type, name);
    if (held != nullptr && IsOld(reinterpret_cast<PyObject*>(type))) {
      MarkOld(held, absl::StrCat(TypeName(type), ".", PyText(name)));
    }
    return;
  }
  PyTypeObject* base = SolidBase(type);
  if (base->tp_getattro != PyObject_GenericGetAttr ||
      (is_write && base->tp_setattro != PyObject_GenericSetAttr)) {
    return Refuse(absl::StrCat("reads an attribute of ", PathOf(owner), ", a ",
                               TypeName(type), ", which C code looks up"));
  }
  PyObject* descriptor = _PyType_Lookup(type, name);
  if (descriptor != nullptr) {
    MarkOld(descriptor, absl::StrCat(TypeName(type), ".", PyText(name)));
    TouchType(Py_TYPE(descriptor));  // Its __get__ may be another one day.
    if (UseDescriptor(owner, name, descriptor)) return;
    if (refusal_) return;
  }
  PyObject* dict = InstanceDict(owner);
  if (dict == nullptr) {
    if (type->tp_dictoffset == 0 && !IsPythonClass(type)) {
      // A C object without attributes of its own; its methods' calls are seen.
      return;
    }
    guards_.AddInstance(owner, NoteOf(PathOf(owner)));
    if (is_write && refusal_.reason.empty()) {
      Refuse(
          absl::StrCat("sets attribute ", PyText(name), " of ", PathOf(owner)));
    }
    return;
  }
  guards_.AddInstance(owner, NoteOf(PathOf(owner)));
  const std::string prefix = PathOf(owner);
  const std::string path =
      prefix.empty() ? PyText(name) : absl::StrCat(prefix, ".", PyText(name));
  MarkOld(dict, absl::StrCat(prefix, ".__dict__"));
  UseDictItem(dict, name, path, use);
}

// A dict's item, or one of a tensor, a list or what else has items.
void StateWatch::WriteItem(PyObject* container, PyObject* key,
                           PyObject* value) {
  if (refusal_ || IsOwnKey(container, key)) return;
  if (!IsTensor(container) && RefusesLaterChange(container)) return;
  NoteLateUse(container);
  StoreItem(container, value);
  values_.MarkExactDeep(key);
  if (!IsConstant(key)) Identify(key);
  if (PyDict_CheckExact(container) && IsItemKey(key)) {
    if (!IsOld(container)) return;
    return UseDictItem(container, key, ItemPath(PathOf(container), key),
                       Use::kWrite);
  }
  if (PyList_CheckExact(container) && PyLong_CheckExact(key)) {
    static PyObject* method = PyObject_GetAttrString(
        reinterpret_cast<PyObject*>(&PyList_Type), "__setitem__");
    if (ChangeContainer(method, {container, key, value})) return;
  }
  UseItem(container, key);
  // No effect makes this again: it has to leave what was there.
  if (refusal_ || !IsOld(container)) return;
  values_.MarkExactDeep(value);
  if (!PyDict_Check(container)) return;
  PyObject* before = PyDict_GetItemWithError(container, key);
  if (before == nullptr) return PyErr_Clear();
  values_.MarkExactDeep(before);
}

void StateWatch::RemoveItem(PyObject* container, PyObject* key) {
  if (refusal_ || IsOwnKey(container, key)) return;
  if (RefusesLaterChange(container)) return;
  NoteLateUse(container);
  values_.MarkExactDeep(key);
  if (PyDict_CheckExact(container) && IsItemKey(key)) {
    if (!IsOld(container)) return;
    return UseDictItem(container, key, ItemPath(PathOf(container), key),
                       Use::kRemove);
  }
  // Which a dict of another class has in an order of its own.
  if (PyDict_Check(container)) Touch(container);
  UseItem(container, key);
}

void StateWatch::UseItem(PyObject* container, PyObject* key) {
  if (refusal_ || IsOwnKey(container, key)) return;
  NoteLateUse(container);
  LookFor(key);
  is_making_tensor_ = true;  // tensor[[0, 2]], tensor[0] = 3.
  makes_array_ = IsArray(container);
  values_.MarkExactDeep(key);
  if (!IsConstant(key)) Identify(key);
  // tensor[:, self.index]: the tuple is new, what is in it isn't.
  const bool is_index = IsTensor(container) && PyTuple_CheckExact(key);
  TouchObject(key, is_index ? kDeepDepth : kShallowDepth);
  if (PyDict_Check(container) && IsItemKey(key)) {
    TouchType(Py_TYPE(container));
    if (!IsOld(container)) return;
    // An int is in memory that is too short to ask it for what strings have.
    if (PyUnicode_CheckExact(key) && PyUnicode_CHECK_INTERNED(key) &&
        IsKnown(container, key)) {
      return;
    }
    UseDictItem(container, key, ItemPath(PathOf(container), key), Use::kRead);
    return;
  }
  Touch(container);
}

void StateWatch::Compare(PyObject** first, PyObject** second) {
  if (refusal_) return;
  const bool is_first_known = Share(first), is_second_known = Share(second);
  PyObject *a = *first, *b = *second;
  if (Py_TYPE(a) == Py_TYPE(b) && !(is_first_known && is_second_known)) {
    return Refuse("compares the identity of numbers that vary");
  }
  // Tensors' identities are guarded. Another argument may be the very object
  // that it is compared to in a later call only if that is of its class.
  if (Py_TYPE(a) != Py_TYPE(b)) return;
  IdentifyConstants(a, b);
  Identify(a);
  Identify(b);
}

void StateWatch::TouchType(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return;
  auto* object = reinterpret_cast<PyObject*>(type);
  if (!IsOld(object) || !IsFirst(object, nullptr)) return;
  guards_.AddType(type, NoteOf(absl::StrCat("class ", TypeName(type))));
}

void StateWatch::TouchClassOf(PyObject* object) {
  if (refusal_ || inputs_.contains(object) || !IsOld(object)) return;
  guards_.AddClassOf(object, NoteOf(PathOf(object)));
}

void StateWatch::TouchClasses(absl::Span<PyObject* const> args) {
  for (PyObject* arg : args) {
    if (arg == nullptr) continue;
    TouchType(Py_TYPE(arg));
    TouchClassOf(arg);
    if (PyType_Check(arg)) TouchType(AsType(arg));
    if (!PyTuple_Check(arg)) continue;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arg); ++i) {
      PyObject* item = PyTuple_GET_ITEM(arg, i);
      if (values_.Find(item) < 0) TouchObject(item, kDeepDepth);
    }
  }
}

void StateWatch::CheckOperand(PyObject* operand) {
  if (refusal_ || operand == nullptr) return;
  if (HasPureOperators(SolidBase(Py_TYPE(operand)))) return;
  if (UnwrapCompiled(operand) != nullptr) return;  // As what is inside.
  Refuse(absl::StrCat("uses an operator of ", TypeName(Py_TYPE(operand)),
                      ", a type in C that isn't known to be free of effects"),
         "compute it outside the compiled function");
}

void StateWatch::TouchObject(PyObject* object, int depth) {
  if (refusal_ || object == nullptr) return;
  if (IsNumber(object)) return values_.MarkExact(object);
  NoteLateTouch(object);
  PyTypeObject* type = Py_TYPE(object);
  if (IsContextualType(SolidBase(type)) &&
      (depth >= kDeepDepth || !IsInert(object))) {
    return CheckOperand(object);
  }
  if (PyCFunction_Check(object) || type == &PyMethodDescr_Type ||
      type == &PyWrapperDescr_Type || type == &_PyMethodWrapper_Type) {
    if (depth >= kDeepDepth) CheckCallback(object);
    return;
  }
  if (type == &PyDictProxy_Type) {
    PyObject* mapping = ProxiedMapping(object);
    if (IsOld(object)) MarkOld(mapping, PathOf(object));
    return TouchObject(mapping, depth);
  }
  const bool is_inert = IsInert(object);
  if (depth >= kDeepDepth && (is_inert || PySlice_Check(object))) {
    values_.MarkExactDeep(object);
  }
  if (is_inert) return;
  if (IsTensor(object)) {
    if (!IsPlainTensor(object)) {
      return Refuse(absl::StrCat("uses a ", TypeName(type),
                                 ", a subclass of torch.Tensor"));
    }
    TouchType(type);  // Its operators may have been replaced.
    if (IsOld(object) && IsFirst(object, nullptr)) {
      guards_.AddTensor(object, NoteOf(PathOf(object)));
    }
    return;
  }
  if (PyType_Check(object)) {
    TouchType(type);
    return TouchType(AsType(object));
  }
  if (PyModule_Check(object)) return;
  if (PyFunction_Check(object)) {
    if (depth >= kDeepDepth) EnterFunction(object);
    return;
  }
  if (PyMethod_Check(object)) {
    return TouchObject(PyMethod_GET_FUNCTION(object), depth);
  }
  TouchType(type);
  TouchClassOf(object);
  if (IsContainer(object)) return TouchContainer(object, depth);
  if (IsArray(object)) {
    if (inputs_.contains(object) || !IsOld(object)) return;
    if (!guards_.AddArray(object, NoteOf(PathOf(object)))) {
      Refuse(absl::StrCat("reads a numpy array, ", PathOf(object),
                          ", that is large or not dense"),
             "hold it as a tensor");
    }
    return;
  }
  if (type == &_PyWeakref_RefType) return;  // Unless it is called.
  if (depth >= kDeepDepth) values_.MarkExactDeep(object);
  if (depth >= kDeepDepth && IsAttributeGetterType(type)) {
    return RefuseCall(object);  // By C code, with what isn't known.
  }
  if (depth >= kDeepDepth && GivesItems(object) && !IsOld(object)) {
    return TouchSources(object, depth);
  }
  TouchInstance(object);
}

void StateWatch::TouchInstance(PyObject* object) {
  if (inputs_.contains(object) || !IsOld(object)) return;
  if (!IsFirst(object, nullptr)) return;
  if (PyObject* inner = UnwrapCompiled(object)) {
    MarkOld(inner, PathOf(object));
    return TouchInstance(inner);
  }
  PyTypeObject* base = SolidBase(Py_TYPE(object));
  if (base == &PyBaseObject_Type || PyExceptionInstance_Check(object) ||
      IsImmutableType(base)) {
    guards_.AddInstance(object, NoteOf(PathOf(object)));
    return;
  }
  if (IsPureCallableType(base)) {
    // C code may call it.
    if (IsLruCache(object)) UseCache(object, /*num_calls=*/0);
    return;
  }
  if (IsLock(object)) {
    if (!guards_.AddLock(object, NoteOf(PathOf(object)))) {
      Refuse(absl::StrCat("takes ", PathOf(object), ", a lock that is held"));
    }
    return;
  }
  // torch's own classes (the profiler's marks): an operator that looks into
  // one is refused by the recorder.
  if (absl::string_view(TypeName(base)) == "torch.ScriptObject") return;
  // Its state is read and written where operators draw from it.
  if (IsTorchGenerator(object)) return;
  Refuse(
      absl::StrCat("uses ", PathOf(object), ", a ", TypeName(Py_TYPE(object)),
                   " made before the call, whose state no guard can cover"),
      "make it inside the compiled function");
}

void StateWatch::Format(PyObject* object) {
  if (refusal_) return;
  TouchObject(object, kDeepDepth);
  if (IsTensor(object) || IsContainer(object)) return;
  PyTypeObject* type = Py_TYPE(object);
  if (IsPythonClass(type) && type->tp_repr == PyBaseObject_Type.tp_repr &&
      type->tp_str == PyBaseObject_Type.tp_str &&
      (inputs_.contains(object) || !IsOld(object))) {
    Refuse(absl::StrCat("makes text of the address of a ", TypeName(type)));
  }
}

void StateWatch::Import(PyObject* name) {
  if (refusal_) return;
  PyObject* modules = PyImport_GetModuleDict();
  MarkOld(modules, "sys.modules");
  AddItem(modules, name,
          NoteOf(absl::StrCat("sys.modules['", PyText(name), "']")));
  PyObject* module = PyDict_GetItemWithError(modules, name);
  if (module == nullptr) {
    Refuse(absl::StrCat("imports ", PyText(name), " for the first time"));
    refusal_.transient = true;
    return;
  }
  MarkOld(module, PyText(name));
  // `import a.b` binds `a`.
  const std::string text = PyText(name);
  const size_t dot = text.find('.');
  if (dot == std::string::npos) return;
  PyObject* top = PyDict_GetItemString(modules, text.substr(0, dot).c_str());
  if (top != nullptr) MarkOld(top, text.substr(0, dot));
}

}  // namespace mica
