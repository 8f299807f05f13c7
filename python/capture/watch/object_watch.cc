#include "python/capture/watch/object_watch.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/known/stand_ins.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/object_kinds.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

bool IsLock(PyObject* object) {
  const absl::string_view name = Py_TYPE(object)->tp_name;
  return name == "_thread.lock" || name == "_thread.RLock";
}

// What a builtin method is bound to, if to an object.
PyRef SelfOf(PyObject* callable) {
  PyRef self;
  if (PyCFunction_Check(callable)) {
    self = PyRef::Share(PyCFunction_GET_SELF(callable));
    // A module's function; or pybind11's, bound to its own record.
    if (self && (PyModule_Check(self.get()) ||
                 absl::StrContains(Py_TYPE(self.get())->tp_name,
                                   "pybind11_detail_function_record"))) {
      self = PyRef();
    }
  } else if (Py_TYPE(callable) == MethodWrapperType()) {
    self = PyRef::Steal(PyObject_GetAttrString(callable, "__self__"));
    if (!self) PyErr_Clear();
  }
  return self;
}

// The function that gives attribute `name` of its argument; one for each name.
PyObject* GetterOf(PyObject* name) {
  static PyObject* getters = PyDict_New();
  if (PyObject* known = PyDict_GetItemWithError(getters, name)) return known;
  static PyObject* make = ResolveName("operator.attrgetter").release();
  const PyRef getter = PyRef::Steal(PyObject_CallOneArg(make, name));
  if (!getter || PyDict_SetItem(getters, name, getter.get()) != 0) {
    PyErr_Clear();
    return nullptr;
  }
  return getter.get();
}

// torch.FloatTensor and its like, whose instances are those of a dtype, or a
// tuple with one.
bool IsLegacyTensorType(PyObject* object) {
  if (object == nullptr) return false;
  if (!PyTuple_Check(object)) {
    return absl::string_view(Py_TYPE(object)->tp_name) == "torch.tensortype";
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (IsLegacyTensorType(PyTuple_GET_ITEM(object, i))) return true;
  }
  return false;
}

}  // namespace

void ObjectWatch::TouchType(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return;
  auto* object = reinterpret_cast<PyObject*>(type);
  if (!IsOld(object) || !IsFirst(object, nullptr)) return;
  guards_.AddType(type, NoteOf(absl::StrCat("class ", TypeName(type))));
}

void ObjectWatch::TouchClassOf(PyObject* object) {
  if (refusal() || IsInput(object) || !IsOld(object)) return;
  guards_.AddClassOf(object, NoteOf(PathOf(object)));
}

void ObjectWatch::TouchClasses(absl::Span<PyObject* const> args,
                               bool asks_tensors) {
  // A tuple that is asked for its class may hold anything, many times.
  asks_tensors |= std::any_of(args.begin(), args.end(), [&](PyObject* arg) {
    return (arg != args[0] || !PyTuple_Check(arg)) && IsLegacyTensorType(arg);
  });
  for (PyObject* arg : args) {
    if (arg == nullptr) continue;
    if (asks_tensors && IsTensor(arg) && IsOld(arg) && !IsInput(arg)) {
      if (!CheckSizes(arg)) return;
      guards_.AddTensor(arg, NoteOf(PathOf(arg)));
    }
    TouchType(Py_TYPE(arg));
    TouchClassOf(arg);
    if (PyType_Check(arg)) TouchType(AsType(arg));
    if (!PyTuple_Check(arg)) continue;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arg); ++i) {
      PyObject* item = PyTuple_GET_ITEM(arg, i);
      if (values_.Find(item) < 0) Touch(item, kDeep);
    }
  }
}

void ObjectWatch::CheckOperand(PyObject* operand) {
  if (refusal() || operand == nullptr) return;
  if (HasPureOperators(SolidBase(Py_TYPE(operand)))) return;
  if (FindInside(operand) != nullptr) return;  // As what is inside.
  Refuse(absl::StrCat("uses an operator of ", TypeName(Py_TYPE(operand)),
                      ", a type in C that isn't known to be free of effects"),
         "compute it outside the compiled function");
}

void ObjectWatch::Touch(PyObject* object, int depth) {
  if (refusal() || object == nullptr) return;
  if (IsScalar(object)) return values_.MarkExact(object);
  last_calls_.NoteTouch(object);
  PyTypeObject* type = Py_TYPE(object);
  if (IsContextualType(SolidBase(type)) &&
      (depth >= kDeep || !IsInert(object))) {
    return CheckOperand(object);
  }
  if (PyCFunction_Check(object) || type == &PyMethodDescr_Type ||
      type == &PyWrapperDescr_Type || type == MethodWrapperType()) {
    if (depth >= kDeep) CheckCallback(object);
    return;
  }
  if (type == &PyDictProxy_Type) {
    PyObject* mapping = ProxiedMapping(object);
    written_.NeverFollow(mapping);
    if (IsOld(object)) MarkOld(mapping, PathOf(object));
    return Touch(mapping, depth);
  }
  const bool is_inert = IsInert(object);
  if (depth >= kDeep && (is_inert || PySlice_Check(object))) {
    values_.MarkExactDeep(object);
  }
  if (is_inert) {
    if (PyTuple_Check(object)) TouchTupleTypes(object);
    return;
  }
  if (IsTensor(object)) return TouchTensor(object);
  if (PyType_Check(object)) {
    TouchType(type);
    return TouchType(AsType(object));
  }
  if (PyModule_Check(object)) return;
  if (PyFunction_Check(object)) {
    if (depth >= kDeep) EnterFunction(object);
    return;
  }
  if (PyMethod_Check(object)) {
    return Touch(PyMethod_GET_FUNCTION(object), depth);
  }
  TouchType(type);
  TouchClassOf(object);
  if (IsContainer(object)) return TouchContainer(object, depth);
  if (IsArray(object)) return TouchArray(object, depth);
  if (type == &_PyWeakref_RefType) return;  // Unless it is called.
  if (depth >= kDeep) {
    values_.MarkExactDeep(object);
    // C code calls it with what isn't known.
    if (IsAttributeGetterType(type)) return RefuseCall(object);
    if (GivesItems(object) && !IsOld(object)) {
      return TouchSources(object, depth);
    }
  }
  TouchInstance(object);
}

bool ObjectWatch::CheckSizes(PyObject* tensor) {
  if (TensorMeta::HasAllOf(tensor)) return true;
  Refuse(absl::StrCat("looks at ", PathOf(tensor),
                      ", a tensor without sizes that a guard covers"),
         "keep nested tensors out of the compiled function");
  return false;
}

void ObjectWatch::TouchTensor(PyObject* tensor) {
  PyTypeObject* type = Py_TYPE(tensor);
  if (!IsPlainTensor(tensor)) {
    return Refuse(absl::StrCat("uses a ", TypeName(type),
                               ", a subclass of torch.Tensor"));
  }
  if (!CheckSizes(tensor)) return;
  TouchType(type);  // Its operators may have been replaced.
  if (IsOld(tensor) && IsFirst(tensor, nullptr)) {
    guards_.AddTensor(tensor, NoteOf(PathOf(tensor)));
  }
}

void ObjectWatch::TouchArray(PyObject* array, int depth) {
  if (depth >= kDeep) values_.UseText(array);
  if (IsInput(array) || !IsOld(array)) return;
  if (guards_.AddArray(array, NoteOf(PathOf(array)))) return;
  Refuse(absl::StrCat("reads a numpy array, ", PathOf(array),
                      ", that is large or not dense"),
         "hold it as a tensor");
}

void ObjectWatch::TouchInstance(PyObject* object) {
  if (IsInput(object) || !IsOld(object)) return;
  if (!IsFirst(object, nullptr)) return;
  if (PyObject* inner = FindInside(object)) {
    MarkOld(inner, PathOf(object));
    return TouchInstance(inner);
  }
  PyTypeObject* base = SolidBase(Py_TYPE(object));
  if (base == &PyBaseObject_Type || PyExceptionInstance_Check(object) ||
      IsImmutableType(base)) {
    guards_.AddInstance(object, NoteOf(PathOf(object)));
    if (PyExceptionInstance_Check(object)) TouchException(object);
    return;
  }
  if (IsPureCallableType(base)) {
    // C code may call it.
    if (IsLruCache(object)) caches_.Use(object, /*num_calls=*/0);
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
  if (IsTorchGenerator(object) || IsClassCounter(object)) return;
  Refuse(
      absl::StrCat("uses ", PathOf(object), ", a ", TypeName(Py_TYPE(object)),
                   " made before the call, whose state no guard can cover"),
      "make it inside the compiled function");
}

// Its text is made of these, and methods in C change them.
void ObjectWatch::TouchException(PyObject* exception) {
  for (PyTypeObject* type = SolidBase(Py_TYPE(exception)); type != nullptr;
       type = type->tp_base) {
    Py_ssize_t position = 0;
    PyObject *name = nullptr, *value = nullptr;
    while (TypeDict(type) != nullptr &&
           PyDict_Next(TypeDict(type), &position, &name, &value)) {
      const std::string word = PyText(name);
      const bool is_args = word == "args";
      if (Py_TYPE(value) != &PyMemberDescr_Type && !is_args) continue;
      HoldAttribute(exception, name);
    }
  }
  PyObject* dict = InstanceDict(exception);
  if (dict == nullptr) return;
  MarkOld(dict, absl::StrCat(PathOf(exception), ".__dict__"));
  Touch(dict, kDeep);
}

void ObjectWatch::HoldAttribute(PyObject* owner, PyObject* name) {
  if (refusal() || IsInput(owner) || !IsOld(owner)) return;
  PyObject* getter = GetterOf(name);
  const PyRef value = PyRef::Steal(PyObject_GetAttr(owner, name));
  if (!value || getter == nullptr) return PyErr_Clear();
  const std::string path = absl::StrCat(
      PyType_Check(owner) ? TypeName(AsType(owner)) : PathOf(owner), ".",
      PyText(name));
  guards_.AddAnswer(getter, owner, value.get(), NoteOf(path),
                    FieldPlace(owner, name));
  MarkOld(value.get(), path);
}

void ObjectWatch::HoldText(PyObject* owner, PyObject* name) {
  PyTypeObject* type = Py_TYPE(owner);
  if (!IsKeptInC(_PyType_Lookup(type, name))) return;
  if (PyType_Check(owner) &&
      ((AsType(owner)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 ||
       type->tp_getattro != PyType_Type.tp_getattro)) {
    return;
  }
  const PyRef value = PyRef::Steal(PyObject_GetAttr(owner, name));
  if (!value) return PyErr_Clear();
  if (PyUnicode_Check(value.get()) || value.get() == Py_None) {
    HoldAttribute(owner, name);
  }
}

void ObjectWatch::Format(PyObject* object) {
  if (refusal()) return;
  Touch(object, kDeep);
  static PyObject* name = Interned("__qualname__");
  if (PyFunction_Check(object) || PyType_Check(object)) HoldText(object, name);
  if (IsTensor(object) || IsContainer(object)) return;
  PyTypeObject* type = Py_TYPE(object);
  if (IsPythonClass(type) && type->tp_repr == PyBaseObject_Type.tp_repr &&
      type->tp_str == PyBaseObject_Type.tp_str &&
      (IsInput(object) || !IsOld(object))) {
    Refuse(absl::StrCat("makes text of the address of a ", TypeName(type)));
  }
}

void ObjectWatch::EnterFunction(PyObject* function) {
  if (refusal() || function == nullptr) return;
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
    refusal().transient = true;
    return;
  }
  guards_.AddFunction(function, NoteOf(name));
  const auto* value = reinterpret_cast<PyFunctionObject*>(function);
  if (value->func_defaults != nullptr) {
    MarkOld(value->func_defaults, absl::StrCat(name, ".__defaults__"));
  }
  if (value->func_kwdefaults != nullptr) {
    MarkOld(value->func_kwdefaults, absl::StrCat(name, ".__kwdefaults__"));
    ages_.MarkContents(value->func_kwdefaults);
  }
}

PyRef ObjectWatch::SelfOfCall(PyObject* callable) {
  PyRef self = SelfOf(callable);
  if (self && IsOld(callable)) MarkOld(self.get(), PathOf(callable));
  return self;
}

void ObjectWatch::CheckCallback(PyObject* callable) {
  if (refusal()) return;
  switch (KindOfBuiltin(callable)) {
    case CallKind::kPure:
    case CallKind::kMoves:
    case CallKind::kOperator:
    case CallKind::kNumberFunction:
    case CallKind::kTypes:
    case CallKind::kRegistry:
    case CallKind::kReadsState:
    case CallKind::kReadsModes:
    case CallKind::kUseItem:
      break;
    default:
      return RefuseCall(callable);
  }
  // A method bound to an old list may be called to change it.
  const PyRef self = SelfOfCall(callable);
  if (self) Touch(self.get(), kDeep);
}

}  // namespace mica
