#include "python/capture/watch/attribute_watch.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/known/stand_ins.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/sequences.h"
#include "python/capture/watch/object_kinds.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
void AttributeWatch::Use(PyObject* owner, PyObject* name, PlaceUse use) {
  if (refusal()) return;
  const bool is_write = use != PlaceUse::kRead;
  if (!PyUnicode_Check(name)) return;  // The program will raise.
  if (IsConstructorName(name)) guards_.DemandConstructors();
  if (is_write && RefusesLaterChange(owner)) return;
  if (is_in_later_pass() && IsInput(owner) && !IsTensor(owner)) {
    return Refuse("reads an argument that isn't a tensor");
  }
  if (values_.Find(owner) >= 0) return values_.MarkExact(owner);
  if (use == PlaceUse::kWrite && step_.stored != nullptr) {
    numbers_.StoreAttribute(owner, name, step_.stored);
  }
  if (absl::StartsWith(PyText(name), "_saved_")) recorder_.ReadSaved();
  if (PyObject* inner = FindInside(owner)) return Use(inner, name, use);
  is_write ? last_calls_.NoteUse(owner)
           : last_calls_.NoteAttribute(owner, name);
  objects_.TouchType(Py_TYPE(owner));
  // A dict's own words may be keys of it, too.
  if (ages_.IsNotedOld(owner) && !is_write && !PyDict_Check(owner) &&
      places_.IsKnown(owner, name)) {
    return;
  }
  objects_.TouchClassOf(owner);
  if (PyModule_Check(owner)) return UseOfModule(owner, name, use);
  if (PyType_Check(owner)) return ReadOfType(AsType(owner), name);
  if (IsTensor(owner)) {
    if (is_write) {
      return tensors_.WriteAttribute(owner, name, use == PlaceUse::kRemove);
    }
    if (!tensors_.ReadAttribute(owner, name)) return;
  }
  if (SuperType(owner) != nullptr) return ReadOfSuper(owner, name);
  if (!is_write) TakeFromArray(owner, name);
  if (is_write && IsArray(owner)) {
    step_.makes_array = true;  // As array.flat.
    if (values_.TensorOf(owner) != nullptr && PyText(name) != "flat") {
      return Refuse(absl::StrCat("sets ", PyText(name),
                                 " of a numpy array that is an argument, or "
                                 "in the memory of a tensor"));
    }
  }
  if (PyCFunction_Check(owner)) {
    objects_.SelfOfCall(owner);
    return;
  }
  if (PyMethod_Check(owner)) {
    return Use(PyMethod_GET_FUNCTION(owner), name, use);
  }
  if (PyFunction_Check(owner)) return UseOfFunction(owner, name, use);
  if (PyCell_Check(owner)) {
    static PyObject* contents = Interned("cell_contents");
    return places_.ReadCell(owner, contents);
  }
  UseOfInstance(owner, name, use);
}

void AttributeWatch::UseOfModule(PyObject* module, PyObject* name,
                                 PlaceUse use) {
  PyObject* dict = PyModule_GetDict(module);
  const std::string base = PathOf(module);
  const std::string path = absl::StrCat(base, ".", PyText(name));
  MarkOld(dict, absl::StrCat(base, ".__dict__"));
  places_.UseItem(dict, name, path, use);
  if (use == PlaceUse::kWrite) return;
  if (PyDict_GetItemWithError(dict, name) != nullptr) return;
  static PyObject* getattr = Interned("__getattr__");
  places_.AddItem(dict, getattr, NoteOf(absl::StrCat(base, ".__getattr__")));
}

void AttributeWatch::ReadOfType(PyTypeObject* type, PyObject* name) {
  if (IsLibraryCounter(type, name)) {
    return Refuse(absl::StrCat("asks for ", TypeName(type), ".", PyText(name),
                               ", by which torch counts"));
  }
  objects_.TouchType(type);
  objects_.HoldText(reinterpret_cast<PyObject*>(type), name);
  for (PyTypeObject* place : {type, Py_TYPE(type)}) {
    PyObject* value = _PyType_Lookup(place, name);
    if (value == nullptr) continue;
    return MarkOld(value, absl::StrCat(TypeName(place), ".", PyText(name)));
  }
}

void AttributeWatch::ReadOfSuper(PyObject* super, PyObject* name) {
  PyTypeObject* search = SuperType(super);
  objects_.TouchType(search);
  if (PyObject* self = SuperObjectOf(super)) objects_.TouchClassOf(self);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(search->tp_mro); ++i) {
    PyTypeObject* base = AsType(PyTuple_GET_ITEM(search->tp_mro, i));
    PyObject* value = PyDict_GetItemWithError(TypeDict(base), name);
    MarkOld(value, absl::StrCat(TypeName(base), ".", PyText(name)));
  }
}

void AttributeWatch::TakeFromArray(PyObject* owner, PyObject* name) {
  const bool walks_array =
      absl::string_view(Py_TYPE(owner)->tp_name) == "numpy.nditer" &&
      !IsOld(owner);
  if (!IsArray(owner) && !walks_array) return;
  const std::string word = PyText(name);
  step_.takes_from_array = word != "base" && word != "ctypes" && word != "data";
}

void AttributeWatch::UseOfFunction(PyObject* owner, PyObject* name,
                                   PlaceUse use) {
  if (!IsOld(owner)) return;
  const bool is_write = use != PlaceUse::kRead;
  if (is_write && IsKeptInC(_PyType_Lookup(Py_TYPE(owner), name))) {
    return Refuse(absl::StrCat("sets ", PathOf(owner), ".", PyText(name)),
                  "set it outside the compiled function");
  }
  if (FindAnnotation(owner) == nullptr) {
    objects_.EnterFunction(owner);
  } else {
    guards_.AddFunction(owner, NoteOf(PathOf(owner)));
  }
  const auto* function = reinterpret_cast<PyFunctionObject*>(owner);
  MarkOld(function->func_globals, absl::StrCat(PathOf(owner), ".__globals__"));
  MarkOld(function->func_closure, absl::StrCat(PathOf(owner), ".__closure__"));
  PyRef dict = PyRef::Steal(PyObject_GenericGetDict(owner, nullptr));
  if (!dict) return PyErr_Clear();
  const std::string path = absl::StrCat(PathOf(owner), ".", PyText(name));
  MarkOld(dict.get(), absl::StrCat(PathOf(owner), ".__dict__"));
  places_.UseItem(dict.get(), name, path, use);
  if (is_write || PyDict_Contains(dict.get(), name) != 0) return;
  MarkHeldDict(owner, name);       // As __annotations__.
  objects_.HoldText(owner, name);  // As __name__.
}

void AttributeWatch::MarkHeldDict(PyObject* owner, PyObject* name) {
  const PyRef value = PyRef::Steal(PyObject_GetAttr(owner, name));
  if (!value) return PyErr_Clear();
  if (PyDict_CheckExact(value.get())) {
    MarkOld(value.get(), absl::StrCat(PathOf(owner), ".", PyText(name)));
  }
}

bool AttributeWatch::UseDescriptor(PyObject* owner, PyObject* name,
                                   PyObject* descriptor) {
  PyTypeObject* kind = Py_TYPE(descriptor);
  if (kind == &PyMemberDescr_Type) {
    const std::string path = absl::StrCat(PathOf(owner), ".", PyText(name));
    if (!IsPythonClass(Py_TYPE(owner)) ||
        PyExceptionInstance_Check(owner)) {  // Of a C type.
      MarkHeldDict(owner, name);
      objects_.HoldAttribute(owner, name);
      return true;
    }
    guards_.AddSlot(owner, descriptor, NoteOf(path));
    MarkOld(SlotValue(owner, descriptor), path);
    return true;
  }
  if (kind == &PyGetSetDescr_Type) {
    ReadComputed(owner, name);
    return true;
  }
  if (kind == &PyProperty_Type) {
    PyRef getter = PyRef::Steal(PyObject_GetAttrString(descriptor, "fget"));
    if (!getter) PyErr_Clear();
    if (getter && getter.get() != Py_None) on_getter_(getter.get(), owner);
  }
  return kind->tp_descr_set != nullptr;  // Its code is followed.
}

void AttributeWatch::ReadComputed(PyObject* owner, PyObject* name) {
  static PyObject* own = Interned("__dict__");
  static PyObject* type = Interned("__class__");
  if (name == own) {
    PyObject* dict = InstanceDict(owner);
    guards_.AddInstance(owner, NoteOf(PathOf(owner)));
    return MarkOld(dict, absl::StrCat(PathOf(owner), ".__dict__"));
  }
  if (name == type) {
    return guards_.AddInstance(owner, NoteOf(PathOf(owner)));
  }
  if (IsArray(owner)) {
    // Who looks at more of one in a tensor's memory than its form has done so.
    if (values_.TensorOf(owner) == nullptr) objects_.Touch(owner);
    return;
  }
  if (IsImmutableType(SolidBase(Py_TYPE(owner)))) {
    return MarkHeldDict(owner, name);
  }
  static PyObject* bound = Interned("maxlen");
  if (name == bound && IsDeque(owner)) {
    return objects_.HoldAttribute(owner, name);
  }
  static PyObject* args = Interned("args");
  if (PyExceptionInstance_Check(owner) && name == args) {
    return objects_.HoldAttribute(owner, name);
  }
  Refuse(absl::StrCat("reads ", TypeName(Py_TYPE(owner)), ".", PyText(name),
                      ", which C code computes"));
}

void AttributeWatch::UseOfInstance(PyObject* owner, PyObject* name,
                                   PlaceUse use) {
  const bool is_write = use != PlaceUse::kRead;
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
    objects_.TouchType(
        Py_TYPE(descriptor));  // Its __get__ may be another one day.
    if (UseDescriptor(owner, name, descriptor)) return;
    if (refusal()) return;
  }
  PyObject* dict = InstanceDict(owner);
  if (dict == nullptr) {
    if (type->tp_dictoffset == 0 && !IsPythonClass(type)) {
      // A C object without attributes of its own; its methods' calls are seen.
      return;
    }
    guards_.AddInstance(owner, NoteOf(PathOf(owner)));
    if (is_write && refusal().reason.empty()) {
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
  places_.UseItem(dict, name, path, use);
}

void AttributeWatch::GetBy(PyObject* getter, absl::Span<PyObject* const> args,
                           bool is_in_c_code) {
  const PyRef made =
      PyRef::Steal(PyObject_CallMethod(getter, "__reduce__", nullptr));
  if (!made || args.size() != 1) {
    PyErr_Clear();
    return RefuseCall(getter);
  }
  if (IsOld(getter)) guards_.AddInstance(getter, NoteOf(PathOf(getter)));
  PyObject* names = PyTuple_GET_ITEM(made.get(), 1);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    if (absl::StrContains(PyText(name), ".")) return RefuseCall(getter);
    Use(args[0], name, PlaceUse::kRead);
    if (!is_in_c_code || refusal()) continue;
    PyObject* dict = InstanceDict(args[0]);
    PyObject* value =
        dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
    if (value == nullptr) {
      PyErr_Clear();
      return RefuseCall(getter);
    }
    objects_.Touch(value, kDeep);
  }
}

void AttributeWatch::TouchArgs(absl::Span<PyObject* const> args) {
  const auto is_getter = [](PyObject* arg) {
    return arg != nullptr && IsAttributeGetterType(Py_TYPE(arg));
  };
  for (PyObject* arg : args) {
    if (arg != nullptr && !is_getter(arg)) identity_.IdentifyDeep(arg);
    if (!is_getter(arg)) objects_.Touch(arg, kDeep);
  }
  for (PyObject* getter : args) {
    if (!is_getter(getter)) continue;
    for (PyObject* arg : args) {
      if (arg == nullptr || arg == getter || IsConstant(arg)) continue;
      if (!PyList_CheckExact(arg) && !PyTuple_CheckExact(arg)) {
        return RefuseCall(getter);
      }
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(arg); ++i) {
        PyObject* item = PySequence_Fast_GET_ITEM(arg, i);
        GetBy(getter, {&item, 1}, /*is_in_c_code=*/true);
      }
    }
  }
}

}  // namespace mica
