#include "python/capture/state_watch.h"

#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "python/capture/compiled.h"
#include "python/capture/constants.h"
#include "python/capture/purity.h"

namespace mica {
namespace {

// Containers nested deeper than this aren't followed.
constexpr int kMaxDepth = 16;
// Depths: an operand, and an argument of a C function, are looked at; what
// they hold is looked at for the latter only.
constexpr int kShallowDepth = 0;
constexpr int kDeepDepth = 1;

bool IsContainer(PyObject* object) {
  return PyDict_Check(object) || PyList_Check(object) ||
         PyTuple_Check(object) || PyAnySet_Check(object) ||
         (DequeType() != nullptr && PyObject_TypeCheck(object, DequeType()));
}

bool IsArray(PyObject* object) {
  static PyTypeObject* type = nullptr;
  const char* name = Py_TYPE(object)->tp_name;
  if (type == nullptr && absl::string_view(name) == "numpy.ndarray") {
    type = Py_TYPE(object);
  }
  return type != nullptr && PyObject_TypeCheck(object, type);
}

// Kinds of object that hold nothing that a program could change unseen.
bool IsInert(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return IsConstant(object) || type == &PyCode_Type ||
         type == &PyFrozenSet_Type || IsImmutableType(type);
}

bool IsItemKey(PyObject* key) {
  return PyUnicode_CheckExact(key) || PyLong_CheckExact(key);
}

PyTypeObject* AsType(PyObject* object) {
  return reinterpret_cast<PyTypeObject*>(object);
}

// The C type that a class made in Python builds on.
PyTypeObject* SolidBase(PyTypeObject* type) {
  while (type->tp_base != nullptr && IsPythonClass(type)) type = type->tp_base;
  return type;
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
  } else if (Py_TYPE(callable) == &_PyMethodWrapper_Type) {
    self = PyRef::Steal(PyObject_GetAttrString(callable, "__self__"));
    if (!self) PyErr_Clear();
  }
  return self;
}

PyObject* ModuleDict(PyObject* module) { return PyModule_GetDict(module); }

PyObject* Interned(const char* text) {
  return PyUnicode_InternFromString(text);
}

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
              .at = CurrentUserLine()};
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
}

void StateWatch::MarkContents(PyObject* container) {
  const std::string path = PathOf(container);
  if (PyDict_Check(container)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    for (int i = 0; PyDict_Next(container, &position, &key, &value); ++i) {
      if (!IsConstant(key)) MarkOld(key, absl::StrCat("key ", i, " of ", path));
      if (!IsConstant(value)) MarkOld(value, ItemPath(path, key));
    }
  } else if (PyTuple_Check(container) || PyList_Check(container)) {
    const bool is_tuple = PyTuple_Check(container);
    for (Py_ssize_t i = 0; i < Py_SIZE(container); ++i) {
      PyObject* item = is_tuple ? PyTuple_GET_ITEM(container, i)
                                : PyList_GET_ITEM(container, i);
      if (!IsConstant(item)) MarkOld(item, absl::StrCat(path, "[", i, "]"));
    }
  } else if (PyAnySet_Check(container)) {
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    Py_hash_t hash = 0;
    while (_PySet_NextEntry(container, &position, &item, &hash)) {
      MarkOld(item, absl::StrCat("an item of ", path));
    }
  } else {
    PyRef items = PyRef::Steal(PySequence_List(container));
    if (!items) return PyErr_Clear();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      MarkOld(PyList_GET_ITEM(items.get(), i), absl::StrCat(path, "[", i, "]"));
    }
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
  if (refusal_ || function == nullptr || !IsOld(function)) return;
  if (!IsFirst(function, nullptr)) return;
  const std::string name =
      PyText(reinterpret_cast<PyFunctionObject*>(function)->func_qualname);
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
  if (refusal_ || !IsFirst(globals, name)) return;
  const std::string text = PyText(name);
  for (PyObject* dict : {globals, builtins}) {
    if (dict == nullptr) continue;
    if (!PyDict_CheckExact(dict)) {
      return Refuse("runs code whose globals aren't a plain dict");
    }
    if (!IsOld(dict)) return;
    AddItem(dict, name, NoteOf(text));
    PyObject* value = PyDict_GetItemWithError(dict, name);
    if (value == nullptr) continue;
    MarkOld(value, text);
    return;
  }
}

void StateWatch::ReadCell(PyObject* cell, PyObject* name) {
  if (refusal_ || cell == nullptr || !PyCell_Check(cell) || !IsOld(cell)) {
    return;
  }
  guards_.AddCell(cell, NoteOf(PyText(name)));
  MarkOld(PyCell_GET(cell), PyText(name));
}

void StateWatch::ReadAttribute(PyObject* owner, PyObject* name) {
  UseAttribute(owner, name, /*is_write=*/false);
}

void StateWatch::WriteAttribute(PyObject* owner, PyObject* name) {
  UseAttribute(owner, name, /*is_write=*/true);
}

void StateWatch::UseAttribute(PyObject* owner, PyObject* name, bool is_write) {
  if (refusal_) return;
  if (!PyUnicode_Check(name)) return;  // The program will raise.
  if (PyFloat_CheckExact(owner)) return values_.MarkExact(owner);
  if (PyObject* inner = UnwrapCompiled(owner)) {
    return UseAttribute(inner, name, is_write);
  }
  PyTypeObject* type = Py_TYPE(owner);
  TouchType(type);
  if (old_.contains(owner) && !is_write && !IsFirst(owner, name)) return;
  if (PyModule_Check(owner)) {
    PyObject* dict = ModuleDict(owner);
    const std::string base = PathOf(owner);
    const std::string path = absl::StrCat(base, ".", PyText(name));
    MarkOld(dict, absl::StrCat(base, ".__dict__"));
    AddItem(dict, name, NoteOf(path));
    PyObject* value = PyDict_GetItemWithError(dict, name);
    if (value != nullptr) return MarkOld(value, path);
    static PyObject* getattr = Interned("__getattr__");
    AddItem(dict, getattr, NoteOf(absl::StrCat(base, ".__getattr__")));
    return;
  }
  if (PyType_Check(owner)) {
    TouchType(AsType(owner));
    PyObject* value = _PyType_Lookup(AsType(owner), name);
    if (value != nullptr) {
      MarkOld(value, absl::StrCat(TypeName(AsType(owner)), ".", PyText(name)));
    }
    return;
  }
  if (IsTensor(owner)) {
    if (is_write) {
      if (PyText(name) == "grad") return TouchGradient(owner);
      return Refuse(
          absl::StrCat("sets attribute ", PyText(name), " of a tensor"),
          "set it outside the compiled function");
    }
    if (!ReadTensorAttribute(owner, name)) return;
  }
  if (PyTypeObject* search = SuperType(owner); search != nullptr) {
    TouchType(search);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(search->tp_mro); ++i) {
      PyTypeObject* base = AsType(PyTuple_GET_ITEM(search->tp_mro, i));
      PyObject* value = PyDict_GetItemWithError(base->tp_dict, name);
      MarkOld(value, absl::StrCat(TypeName(base), ".", PyText(name)));
    }
    return;
  }
  if (PyMethod_Check(owner)) {
    return UseAttribute(PyMethod_GET_FUNCTION(owner), name, is_write);
  }
  if (PyFunction_Check(owner)) {
    if (!IsOld(owner)) return;
    EnterFunction(owner);
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
    if (value != nullptr) MarkOld(value, path);
    return;
  }
  if (PyCell_Check(owner)) {
    static PyObject* contents = Interned("cell_contents");
    return ReadCell(owner, contents);
  }
  UseInstanceAttribute(owner, name, is_write);
}

// False if nothing is left to look at.
bool StateWatch::ReadTensorAttribute(PyObject* owner, PyObject* name) {
  if (!IsPlainTensor(owner)) {
    Refuse(absl::StrCat("uses a ", TypeName(Py_TYPE(owner)),
                        ", a subclass of torch.Tensor"));
    return false;
  }
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(owner), name);
  if (descriptor != nullptr && Py_TYPE(descriptor) == &PyGetSetDescr_Type) {
    const std::string text = PyText(name);
    if (text == "grad" || text == "_grad") {
      TouchGradient(owner);
      return false;
    }
    // Autograd's view of a tensor that the run itself made is made with it.
    const bool tracked =
        RequiresGrad(owner) && (IsOld(owner) || inputs_.contains(owner));
    if (!IsSafeTensorAttribute(text, tracked)) {
      Refuse(absl::StrCat("reads Tensor.", text, ", which no guard can cover"));
      return false;
    }
    Touch(owner);
    return false;
  }
  if (descriptor != nullptr) return false;    // A method: its call is seen.
  if (inputs_.contains(owner)) return false;  // Guarded to have none.
  return true;
}

void StateWatch::TouchGradient(PyObject* owner) {
  if (!inputs_.contains(owner) && !IsOld(owner)) return;
  if (!IsPlainTensor(owner)) {
    return Refuse("touches the gradient of a tensor's subclass");
  }
  if (!inputs_.contains(owner)) TouchObject(owner, kShallowDepth);
  gradients_.Touch(owner);
  // What the leaf holds is looked up at each run, whatever object that is.
  for (const GradientWatch::Seen& seen : gradients_.seen()) {
    if (seen.tensor.get() != owner || !seen.before) continue;
    young_.insert(seen.before.get());
  }
}

void StateWatch::RunBackward(absl::Span<PyObject* const> args) {
  // engine, roots, their gradients, keep_graph, create_graph, leaves, ….
  if (args.size() < 5) return;
  if (args[4] == Py_True) {
    return Refuse(
        "builds a graph of the backward pass, to be differentiated "
        "again",
        "call backward() without create_graph");
  }
  for (PyObject* arg : args.subspan(1)) TouchObject(arg, kDeepDepth);
  gradients_.TouchAll();
  if (args[3] == Py_True) return;
  PyRef roots = PyRef::Steal(PySequence_List(args[1]));
  if (!roots) return PyErr_Clear();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(roots.get()); ++i) {
    PyObject* root = PyList_GET_ITEM(roots.get(), i);
    if (IsTensor(root)) released_.Add(root);
  }
}

// Tensor.requires_grad_: harmless where it changes nothing, or only what the
// run itself made.
void StateWatch::RequireGrad(absl::Span<PyObject* const> args) {
  if (args.empty() || !IsTensor(args[0])) return;
  const bool wanted = args.size() < 2 || args[1] != Py_False;
  const bool is_ours = !IsOld(args[0]) && !inputs_.contains(args[0]);
  if (is_ours && !gradients_.IsOldGradient(args[0])) return;
  if (RequiresGrad(args[0]) == wanted) return TouchObject(args[0], 0);
  Refuse("changes whether a tensor requires grad",
         "do it outside the compiled function");
}

// Notes how `descriptor`, found on the class, answers. False if the instance's
// own dict has the word.
bool StateWatch::UseDescriptor(PyObject* owner, PyObject* name,
                               PyObject* descriptor) {
  PyTypeObject* kind = Py_TYPE(descriptor);
  if (kind == &PyMemberDescr_Type) {
    if (!IsPythonClass(Py_TYPE(owner))) return true;  // Of a C type.
    const std::string path = absl::StrCat(PathOf(owner), ".", PyText(name));
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
                                      bool is_write) {
  PyTypeObject* type = Py_TYPE(owner);
  if (IsInert(owner) && !is_write) return;
  if (!IsOld(owner)) return;
  PyTypeObject* base = SolidBase(type);
  if (base->tp_getattro != PyObject_GenericGetAttr ||
      (is_write && base->tp_setattro != PyObject_GenericSetAttr)) {
    return Refuse(absl::StrCat("reads an attribute of ", PathOf(owner), ", a ",
                               TypeName(type), ", which C code looks up"));
  }
  PyObject* descriptor = _PyType_Lookup(type, name);
  if (descriptor != nullptr) {
    MarkOld(descriptor, absl::StrCat(TypeName(type), ".", PyText(name)));
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
  AddItem(dict, name, NoteOf(path));
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (value != nullptr) MarkOld(value, path);
}

void StateWatch::UseItem(PyObject* container, PyObject* key) {
  if (refusal_) return;
  is_making_tensor_ = true;  // tensor[[0, 2]], tensor[0] = 3.
  Touch(key);
  if (PyDict_Check(container) && IsItemKey(key)) {
    TouchType(Py_TYPE(container));
    if (!IsOld(container)) return;
    if (PyUnicode_CHECK_INTERNED(key) && !IsFirst(container, key)) return;
    const std::string path = ItemPath(PathOf(container), key);
    AddItem(container, key, NoteOf(path));
    PyObject* value = PyDict_GetItemWithError(container, key);
    if (value == nullptr && PyErr_Occurred()) PyErr_Clear();
    if (value != nullptr) MarkOld(value, path);
    return;
  }
  Touch(container);
}

void StateWatch::Compare(PyObject* a, PyObject* b) {
  if (refusal_) return;
  values_.MarkExact(a);
  values_.MarkExact(b);
  // Tensors' identities are guarded. Another argument may be the very object
  // that it is compared to in a later call only if that is of its class.
  if (Py_TYPE(a) != Py_TYPE(b) || IsTensor(a)) return;
  if ((inputs_.contains(a) && (inputs_.contains(b) || IsOld(b))) ||
      (inputs_.contains(b) && IsOld(a))) {
    Refuse("compares the identity of an argument that isn't a tensor");
  }
}

void StateWatch::TouchType(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return;
  auto* object = reinterpret_cast<PyObject*>(type);
  if (!IsOld(object) || !IsFirst(object, nullptr)) return;
  guards_.AddType(type, NoteOf(absl::StrCat("class ", TypeName(type))));
}

void StateWatch::TouchObject(PyObject* object, int depth) {
  if (refusal_ || object == nullptr) return;
  if (PyFloat_CheckExact(object)) return values_.MarkExact(object);
  PyTypeObject* type = Py_TYPE(object);
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
  if (IsInert(object)) return;
  if (IsTensor(object)) {
    if (!IsPlainTensor(object)) {
      return Refuse(absl::StrCat("uses a ", TypeName(type),
                                 ", a subclass of torch.Tensor"));
    }
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
  TouchInstance(object);
}

void StateWatch::TouchContainer(PyObject* object, int depth) {
  if (depth > kMaxDepth) return Refuse("nests containers too deeply");
  const bool is_old = IsOld(object);
  const bool is_first = is_old && IsFirst(object, nullptr);
  if (is_first && !PyTuple_Check(object)) {
    const GuardNote note = NoteOf(PathOf(object));
    if (IsPythonClass(Py_TYPE(object))) guards_.AddInstance(object, note);
    if (PyDict_Check(object)) {
      guards_.AddDict(object, note);
    } else {
      guards_.AddItems(object, note);
    }
  }
  if (is_first) MarkContents(object);
  if (depth < kDeepDepth) return;
  if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(object, &position, &key, &value)) {
      TouchObject(key, depth + 1);
      TouchObject(value, depth + 1);
    }
    return;
  }
  PyRef items = PyRef::Steal(PySequence_List(object));
  if (!items) return PyErr_Clear();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    TouchObject(PyList_GET_ITEM(items.get(), i), depth + 1);
  }
}

void StateWatch::TouchInstance(PyObject* object) {
  if (inputs_.contains(object) || !IsOld(object)) return;
  if (!IsFirst(object, nullptr)) return;
  PyTypeObject* base = SolidBase(Py_TYPE(object));
  if (base == &PyBaseObject_Type || PyExceptionInstance_Check(object) ||
      IsImmutableType(base)) {
    guards_.AddInstance(object, NoteOf(PathOf(object)));
    return;
  }
  if (IsPureCallableType(base)) return;
  // torch's own classes (the profiler's marks): an operator that looks into
  // one is refused by the recorder.
  if (absl::string_view(TypeName(base)) == "torch.ScriptObject") return;
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

void StateWatch::RefuseCall(PyObject* callable) {
  const std::string name = CallableName(callable);
  Refuse(absl::StrCat("calls ", name,
                      ", a function in C that isn't known to be free of "
                      "effects"),
         "call it outside the compiled function");
}

void StateWatch::CheckCallback(PyObject* callable) {
  if (refusal_) return;
  switch (KindOfBuiltin(callable)) {
    case CallKind::kPure:
    case CallKind::kOperator:
    case CallKind::kSquareRoot:
    case CallKind::kShallow:
    case CallKind::kUseItem:
      break;
    default:
      return RefuseCall(callable);
  }
  // A method bound to an old list may be called to change it.
  const PyRef self = SelfOf(callable);
  if (self) TouchObject(self.get(), kDeepDepth);
}

void StateWatch::Call(PyObject* callable, absl::Span<PyObject* const> args) {
  if (refusal_ || callable == nullptr) return;
  if (PyObject* inner = UnwrapCompiled(callable)) {
    MarkOld(inner, PathOf(callable));
    return Call(inner, args);
  }
  if (PyFunction_Check(callable)) return;  // Followed as it runs.
  if (PyMethod_Check(callable)) {
    std::vector<PyObject*> all = {PyMethod_GET_SELF(callable)};
    all.insert(all.end(), args.begin(), args.end());
    return Call(PyMethod_GET_FUNCTION(callable), all);
  }
  if (PyType_Check(callable)) return CallType(AsType(callable), args);
  PyTypeObject* type = Py_TYPE(callable);
  if (PyCFunction_Check(callable) || type == &PyMethodDescr_Type ||
      type == &PyClassMethodDescr_Type || type == &PyWrapperDescr_Type ||
      type == &_PyMethodWrapper_Type) {
    return CallBuiltin(callable, args);
  }
  if (type == &_PyWeakref_RefType) {
    if (!IsOld(callable)) return;
    guards_.AddWeakRef(callable, NoteOf(PathOf(callable)));
    return MarkOld(PyWeakref_GetObject(callable), PathOf(callable));
  }
  if (IsPureCallableType(type)) {
    TouchType(type);
    for (PyObject* arg : args) TouchObject(arg, kDeepDepth);
    if (absl::string_view(type->tp_name) == "functools._lru_cache_wrapper" &&
        IsOld(callable)) {
      // It answers from what it computed before, and may compute now.
      PyObject* cache = LruCacheDict(callable);
      if (cache == nullptr) return RefuseCall(callable);
      MarkOld(cache, absl::StrCat("the cache of ", PathOf(callable)));
      TouchObject(cache, kShallowDepth);
    }
    if (absl::string_view(type->tp_name) == "functools.partial") {
      PyRef function = PyRef::Steal(PyObject_GetAttrString(callable, "func"));
      PyRef bound = PyRef::Steal(PyObject_GetAttrString(callable, "args"));
      PyRef keywords =
          PyRef::Steal(PyObject_GetAttrString(callable, "keywords"));
      if (!function || !bound || !keywords) return PyErr_Clear();
      if (IsOld(callable)) {
        MarkOld(function.get(), absl::StrCat(PathOf(callable), ".func"));
        MarkOld(bound.get(), absl::StrCat(PathOf(callable), ".args"));
        MarkOld(keywords.get(), absl::StrCat(PathOf(callable), ".keywords"));
        TouchObject(keywords.get(), kShallowDepth);
      }
      TouchObject(bound.get(), kShallowDepth);
      Call(function.get(), args);
    }
    return;
  }
  // An instance: its class's __call__, if that is Python code.
  TouchType(type);
  static PyObject* call = Interned("__call__");
  PyObject* method = _PyType_Lookup(type, call);
  if (method == nullptr) return;         // Raises.
  if (PyFunction_Check(method)) return;  // Followed as it runs.
  RefuseCall(callable);
}

void StateWatch::MakeTensor(absl::Span<PyObject* const> args) {
  is_making_tensor_ = true;
  // Of a tensor, or of an array, it may be a view.
  makes_constant_ = true;
  for (PyObject* arg : args) {
    TouchObject(arg, kDeepDepth);
    if (IsConstant(arg) || PyList_CheckExact(arg)) continue;
    makes_constant_ = false;
  }
}

void StateWatch::AddItem(PyObject* dict, PyObject* key, GuardNote note) {
  if (varying_ != nullptr && varying_->HasItem(dict, key)) {
    PyObject* value = PyDict_GetItemWithError(dict, key);
    if (value != nullptr && PyFloat_CheckExact(value)) {
      return values_.AddItem(value, dict, key, std::move(note));
    }
    PyErr_Clear();
  }
  guards_.AddItem(dict, key, note);
}

void StateWatch::EndStep(PyObject* result, bool entered) {
  if (refusal_) return;
  if (makes_constant_ && result != nullptr) CallGave(result);
  if (host_op_ != nullptr) {
    std::vector<PyObject*> operands;
    for (const PyRef& operand : host_operands_) {
      operands.push_back(operand.get());
    }
    if (result == nullptr || !values_.AddOp(result, host_op_, operands)) {
      for (PyObject* operand : operands) values_.MarkExact(operand);
    }
  }
  if (on_step_end_) on_step_end_(result, entered);
}

void StateWatch::Binary(const char* op, PyObject* a, PyObject* b) {
  const bool a_known = values_.Find(a) >= 0;
  const bool b_known = values_.Find(b) >= 0;
  const auto is_number = [](PyObject* object) {
    return PyFloat_CheckExact(object) || PyLong_CheckExact(object);
  };
  if ((a_known || b_known) && op != nullptr && is_number(a) && is_number(b)) {
    host_op_ = op;
    host_operands_.push_back(PyRef::Share(a));
    host_operands_.push_back(PyRef::Share(b));
    return;
  }
  for (const auto& [known, number, other] :
       {std::make_tuple(a_known, a, b), std::make_tuple(b_known, b, a)}) {
    if (known && IsTensor(other)) {
      PassNumber(number);
    } else {
      Touch(number);
    }
  }
}

void StateWatch::Negate(PyObject* number) {
  if (values_.Find(number) < 0) return Touch(number);
  host_op_ = "mica.scalar_neg";
  host_operands_.push_back(PyRef::Share(number));
}

void StateWatch::Store(PyObject* owner, PyObject* value) {
  if (refusal_ || values_.empty() || !values_.HasKnown(value)) return;
  if (owner == nullptr || IsOld(owner) || inputs_.contains(owner)) {
    values_.MarkExactDeep(value);
  }
}

void StateWatch::PassNumber(PyObject* number) {
  if (const HostValues::Id id = values_.Find(number); id >= 0) {
    passed_.push_back({.items = {{.id = id, .constant = values_.value(id)}}});
  }
}

void StateWatch::PassNumbers(PyObject* items) {
  PassedNumbers passed{.is_list = true};
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items, i);
    TapeHostOperand& number = passed.items.emplace_back();
    number.id = values_.Find(item);
    if (number.id >= 0) {
      number.constant = values_.value(number.id);
    } else if (PyFloat_CheckExact(item)) {
      number.constant = PyFloat_AS_DOUBLE(item);
    } else if (PyLong_CheckExact(item)) {
      number.constant = PyLong_AsDouble(item);
    } else {
      return TouchObject(items, kDeepDepth);
    }
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return TouchObject(items, kDeepDepth);
    }
  }
  passed_.push_back(std::move(passed));
}

void StateWatch::CallGave(PyObject* result) {
  if (!refusal_ && on_made_ && IsTensor(result) && IsPlainTensor(result)) {
    on_made_(result);
  }
}

void StateWatch::CallType(PyTypeObject* type,
                          absl::Span<PyObject* const> args) {
  PyTypeObject* meta = Py_TYPE(type);
  TouchType(meta);
  TouchType(type);
  if (type == &PyType_Type && args.size() == 1) return;
  PyTypeObject* base = SolidBase(type);
  if (IsTensorConstructor(type)) return MakeTensor(args);
  if (type == &PyUnicode_Type) {
    for (PyObject* arg : args) Format(arg);
    return;
  }
  // float(x) of a float is x itself.
  if (type == &PyFloat_Type && args.size() == 1 && values_.Find(args[0]) >= 0) {
    return;
  }
  if (!IsPureType(base)) {
    // A metaclass may answer the call in Python (EnumMeta does); what that
    // does is followed.
    static PyObject* call = Interned("__call__");
    PyObject* method = _PyType_Lookup(meta, call);
    if (method != nullptr && PyFunction_Check(method)) return;
    return RefuseCall(reinterpret_cast<PyObject*>(type));
  }
  // Python's own __init__ gets the arguments: what it reads is followed.
  if (IsPythonClass(type) && base == &PyBaseObject_Type) return;
  for (PyObject* arg : args) TouchObject(arg, kDeepDepth);
}

void StateWatch::CallBuiltin(PyObject* callable,
                             absl::Span<PyObject* const> args) {
  const CallKind kind = KindOfBuiltin(callable);
  // A method bound to an object takes that as its first argument.
  std::vector<PyObject*> all;
  const PyRef self = SelfOf(callable);
  if (self) all.push_back(self.get());
  all.insert(all.end(), args.begin(), args.end());
  switch (kind) {
    case CallKind::kUnknown:
      return RefuseCall(callable);
    case CallKind::kReadsData:
      return Refuse(absl::StrCat("calls ", CallableName(callable),
                                 ", which reads a tensor's data on the host"),
                    "keep the computation in tensors, or use item()");
    case CallKind::kRecurrent:
      // (data, batch_sizes, state, weights, …) as against (input, state,
      // weights, …).
      if (all.size() > 3 && (PyList_Check(all[3]) || PyTuple_Check(all[3]))) {
        return Refuse(
            "runs a recurrent layer on a packed sequence, whose "
            "sizes it reads on the host",
            "pad the sequences instead");
      }
      [[fallthrough]];
    case CallKind::kBackward:
      return RunBackward(all);
    case CallKind::kRequiresGrad:
      return RequireGrad(all);
    case CallKind::kSplit:
      if (kind == CallKind::kSplit && all.size() > 1 && IsTensor(all[1])) {
        return Refuse("splits a tensor where another tensor says");
      }
      [[fallthrough]];
    case CallKind::kMakesTensor:
      if (kind == CallKind::kMakesTensor) return MakeTensor(all);
      [[fallthrough]];
    case CallKind::kPure:
      for (PyObject* arg : all) TouchObject(arg, kDeepDepth);
      return;
    case CallKind::kOperator:
      for (PyObject* arg : all) {
        if (arg != nullptr && values_.Find(arg) >= 0) {
          PassNumber(arg);
        } else if (arg != nullptr &&
                   (PyList_CheckExact(arg) || PyTuple_CheckExact(arg)) &&
                   values_.HasKnown(arg)) {
          PassNumbers(arg);
        } else {
          TouchObject(arg, kDeepDepth);
        }
      }
      return;
    case CallKind::kSquareRoot:
      if (all.size() == 1 && values_.Find(all[0]) >= 0) {
        host_op_ = "mica.scalar_sqrt";
        host_operands_.push_back(PyRef::Share(all[0]));
        return;
      }
      for (PyObject* arg : all) TouchObject(arg, kDeepDepth);
      return;
    case CallKind::kShallow:
      for (PyObject* arg : all) {
        if (arg == nullptr) continue;
        TouchType(Py_TYPE(arg));
        if (PyType_Check(arg)) TouchType(AsType(arg));
        if (!PyTuple_Check(arg)) continue;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arg); ++i) {
          PyObject* item = PyTuple_GET_ITEM(arg, i);
          if (!PyFloat_CheckExact(item)) TouchObject(item, kDeepDepth);
        }
      }
      return;
    case CallKind::kGetAttr:
    case CallKind::kSetAttr:
      if (all.size() < 2) return;
      return UseAttribute(all[0], all[1], kind == CallKind::kSetAttr);
    case CallKind::kUseItem:
      if (all.size() < 2) return;
      for (size_t i = 2; i < all.size(); ++i) TouchObject(all[i], kDeepDepth);
      return UseItem(all[0], all[1]);
    case CallKind::kContext: {
      if (all.empty() || !PyContextVar_CheckExact(all[0])) return;
      if (!IsOld(all[0])) return;
      guards_.AddContextVar(all[0], NoteOf(PathOf(all[0])));
      PyObject* value = nullptr;
      if (PyContextVar_Get(all[0], nullptr, &value) != 0) PyErr_Clear();
      if (value == nullptr) return;
      MarkOld(value, PathOf(all[0]));
      Py_DECREF(value);
      return;
    }
    case CallKind::kIdentity:
      if (all.empty() || IsConstant(all[0])) return;
      if (PyType_Check(all[0]) || (IsOld(all[0]) && !IsInput(all[0]))) return;
      return Refuse("uses id() of an object that differs from run to run");
    case CallKind::kText:
      for (PyObject* arg : all) Format(arg);
      return;
    case CallKind::kNew:
      if (!all.empty() && PyType_Check(all[0])) {
        // all[0] is the type that owns the function, all[1] the one to make.
        if (!IsPureType(SolidBase(AsType(all[0])))) return RefuseCall(callable);
        for (PyObject* arg : all) TouchObject(arg, kDeepDepth);
      }
      return;
  }
}

}  // namespace mica
