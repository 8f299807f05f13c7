#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/serve/compiled.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/state_watch.h"
#include "python/capture/watch/texts.h"
#include "python/interpreter/collector.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

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

// True for a method of a container that may change it.
bool ChangesContainer(PyObject* callable, PyObject* container) {
  if (container == nullptr || IsTensor(container)) return false;
  static const auto& methods = *new absl::flat_hash_set<std::string>{
      "__delitem__", "__ior__",     "__setitem__", "add",     "append",
      "appendleft",  "clear",       "discard",     "extend",  "extendleft",
      "insert",      "move_to_end", "pop",         "popitem", "popleft",
      "remove",      "reverse",     "setdefault",  "sort",    "update"};
  if (!PyList_Check(container) && !PyDict_Check(container) &&
      !PyAnySet_Check(container) &&
      !PyType_IsSubtype(Py_TYPE(container), DequeType())) {
    return false;
  }
  const std::string name = CallableName(callable);
  return methods.contains(name.substr(name.rfind('.') + 1));
}

// A function of numpy's own or a method of an array.
bool IsNumpyCall(PyObject* callable, absl::Span<PyObject* const> args) {
  for (PyObject* arg : args) {
    if (arg != nullptr && IsArray(arg)) return true;
  }
  if (!PyCFunction_Check(callable)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  return module != nullptr && PyUnicode_Check(module) &&
         absl::StartsWith(PyText(module), "numpy");
}

// True for what is called again at each hit, with the arguments that it got.
bool IsHostCall(PyObject* callable) {
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  const CallKind kind = KindOfBuiltin(callable);
  return kind == CallKind::kPrint || kind == CallKind::kWarn ||
         kind == CallKind::kLog || kind == CallKind::kHost ||
         kind == CallKind::kDraw || kind == CallKind::kAsk ||
         kind == CallKind::kClock;
}

// True if all that a graph of TorchScript, or a block in it, does is what the
// dispatcher sees. May leave an error set.
bool IsPureScript(PyObject* owner, int depth) {
  constexpr int kMaxDepth = 32;
  const PyRef nodes =
      PyRef::Steal(PyObject_CallMethod(owner, "nodes", nullptr));
  const PyRef list =
      nodes ? PyRef::Steal(PySequence_List(nodes.get())) : PyRef();
  if (!list || depth > kMaxDepth) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* node = PyList_GET_ITEM(list.get(), i);
    const PyRef kind = PyRef::Steal(PyObject_CallMethod(node, "kind", nullptr));
    if (!kind || !IsPureScriptNode(PyText(kind.get()))) return false;
    const PyRef all =
        PyRef::Steal(PyObject_CallMethod(node, "blocks", nullptr));
    const PyRef blocks =
        all ? PyRef::Steal(PySequence_List(all.get())) : PyRef();
    if (!blocks) return false;
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(blocks.get()); ++j) {
      if (!IsPureScript(PyList_GET_ITEM(blocks.get(), j), depth + 1)) {
        return false;
      }
    }
  }
  return true;
}

// What a weak dict or set calls when what is in it dies.
bool ForgetsItem(PyObject* callback) {
  if (!PyFunction_Check(callback)) return false;
  const auto* function = reinterpret_cast<PyFunctionObject*>(callback);
  const std::string module = PyText(function->func_module);
  return module == "weakref" || module == "_weakrefset";
}

// Whether code in C hands its arguments on to code in Python as they are.
bool HandsOnArguments(PyObject* callable) {
  // autograd.Function's apply, bound to its class.
  return PyCFunction_Check(callable) &&
         PyCFunction_GET_SELF(callable) != nullptr &&
         PyType_Check(PyCFunction_GET_SELF(callable)) &&
         absl::EndsWith(CallableName(callable), ".apply");
}

// operator.is_ and its contrary.
bool AsksIdentity(PyObject* callable) {
  const std::string name = CallableName(callable);
  return name == "_operator.is_" || name == "_operator.is_not";
}

// True for C code that depends on nothing but its arguments.
bool IsPureCall(PyObject* callable) {
  if (PyType_Check(callable)) {
    return IsPureType(AsType(callable)) &&
           callable != reinterpret_cast<PyObject*>(&PyType_Type);
  }
  return (PyCFunction_Check(callable) ||
          Py_TYPE(callable) == &PyMethodDescr_Type) &&
         KindOfBuiltin(callable) == CallKind::kPure;
}

// True for calls of whose arguments CallBuiltin() itself says which numbers are
// followed: those are handed on, computed with, passed to an operator, or
// looked at for their types. All other calls make the numbers that they get
// exact.
bool FollowsNumbers(CallKind kind) {
  switch (kind) {
    case CallKind::kPure:
    case CallKind::kNumberFunction:
    case CallKind::kMoves:
    case CallKind::kUseItem:
    case CallKind::kGetAttr:
    case CallKind::kSetAttr:
    case CallKind::kTypes:
    case CallKind::kRegistry:
    case CallKind::kContext:
    case CallKind::kNew:
    case CallKind::kOperator:
    case CallKind::kMakesTensor:
    case CallKind::kDraw:
    case CallKind::kGenerator:
    case CallKind::kAsk:
    case CallKind::kPrint:
    case CallKind::kLog:
    case CallKind::kHost:
    case CallKind::kIdentity:
    case CallKind::kReduce:
    case CallKind::kVars:
      return true;
    default:
      return false;
  }
}

}  // namespace

void StateWatch::RefuseCall(PyObject* callable) {
  const std::string name = CallableName(callable);
  Refuse(absl::StrCat("calls ", name,
                      ", a function in C that isn't known to be free of "
                      "effects"),
         "call it outside the compiled function");
  if (absl::EndsWith(name, "_threshold") && absl::StartsWith(name, "gc.")) {
    GiveThresholdsBack();
  }
}

PyRef StateWatch::SelfOfCall(PyObject* callable) {
  PyRef self = SelfOf(callable);
  if (self && IsOld(callable)) MarkOld(self.get(), PathOf(callable));
  return self;
}

void StateWatch::CheckCallback(PyObject* callable) {
  if (refusal_) return;
  switch (KindOfBuiltin(callable)) {
    case CallKind::kPure:
    case CallKind::kMoves:
    case CallKind::kOperator:
    case CallKind::kNumberFunction:
    case CallKind::kTypes:
    case CallKind::kRegistry:
    case CallKind::kReadsState:
    case CallKind::kUseItem:
      break;
    default:
      return RefuseCall(callable);
  }
  // A method bound to an old list may be called to change it.
  const PyRef self = SelfOfCall(callable);
  if (self) TouchObject(self.get(), kDeepDepth);
}

void StateWatch::Call(PyObject* callable, absl::Span<PyObject* const> args,
                      PyObject* keyword_names) {
  if (refusal_ || callable == nullptr) return;
  if (PyObject* inner = UnwrapCompiled(callable)) {
    MarkOld(inner, PathOf(callable));
    return Call(inner, args, keyword_names);
  }
  if (PyFunction_Check(callable)) {
    const CallAnnotation* known = FindAnnotation(callable);
    if (known == nullptr) return;  // Followed as it runs.
    return CallAnnotated(*known, callable, args, keyword_names);
  }
  if (PyMethod_Check(callable)) {
    std::vector<PyObject*> all = {PyMethod_GET_SELF(callable)};
    all.insert(all.end(), args.begin(), args.end());
    return Call(PyMethod_GET_FUNCTION(callable), all, keyword_names);
  }
  if (PyType_Check(callable)) {
    if (const CallAnnotation* known = FindAnnotation(callable)) {
      return CallAnnotated(*known, callable, args, keyword_names);
    }
    return CallType(AsType(callable), args);
  }
  PyTypeObject* type = Py_TYPE(callable);
  if (PyCFunction_Check(callable) || type == &PyMethodDescr_Type ||
      type == &PyClassMethodDescr_Type || type == &PyWrapperDescr_Type ||
      type == &_PyMethodWrapper_Type) {
    return CallBuiltin(callable, args, keyword_names);
  }
  // Those of weak dicts are of a class of their own.
  if (PyWeakref_CheckRef(callable) &&
      type->tp_call == _PyWeakref_RefType.tp_call) {
    if (!IsOld(callable)) return;
    guards_.AddWeakRef(callable, NoteOf(PathOf(callable)));
    return MarkOld(PyWeakref_GetObject(callable), PathOf(callable));
  }
  if (const CallAnnotation* known = FindAnnotation(callable)) {
    return CallAnnotated(*known, callable, args, keyword_names);
  }
  if (IsScriptFunctionType(type)) return CallScript(callable, args);
  if (IsAttributeGetterType(type)) return GetAttributes(callable, args, false);
  if (IsPureCallableType(type)) {
    makes_array_ = true;
    if (absl::StartsWith(type->tp_name, "numpy.")) TouchNumpyContext();
    TouchType(type);
    for (PyObject* arg : args) {
      if (arg != nullptr) IdentifyDeep(arg);  // A cache's key.
      TouchObject(arg, kDeepDepth);
    }
    if (IsLruCache(callable) && IsOld(callable)) {
      CallCached(callable, args, keyword_names);
      return;
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
      std::vector<PyObject*> all;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bound.get()); ++i) {
        all.push_back(PyTuple_GET_ITEM(bound.get(), i));
      }
      all.insert(all.end(), args.begin(), args.end());
      const bool has_keywords =
          keyword_names != nullptr || PyDict_GET_SIZE(keywords.get()) > 0;
      if (has_keywords && IsHostCall(function.get())) {
        return RefuseCall(function.get());
      }
      Call(function.get(), all);
    }
    return;
  }
  // An instance: its class's __call__, if that is Python code.
  TouchType(type);
  TouchClassOf(callable);
  static PyObject* call = Interned("__call__");
  PyObject* method = _PyType_Lookup(type, call);
  if (method == nullptr) return;  // Raises.
  std::vector<PyObject*> all = {callable};
  all.insert(all.end(), args.begin(), args.end());
  if (PyFunction_Check(method)) return Call(method, all, keyword_names);
  if (const CallAnnotation* known = FindAnnotation(method)) {
    return CallAnnotated(*known, method, all, keyword_names);
  }
  RefuseCall(callable);
}

void StateWatch::CallAnnotated(const CallAnnotation& known, PyObject* callable,
                               absl::Span<PyObject* const> args,
                               PyObject* keyword_names) {
  if (known.kind == CallKind::kEndsGraph) {
    return Refuse(known.reason,
                  "call it outside the compiled function if all of that is to "
                  "be one graph");
  }
  if (known.kind == CallKind::kSeeds && (args.empty() || args[0] == Py_None)) {
    return RefuseCall(callable);
  }
  annotated_ = &known;
  // Nobody follows what it makes of its arguments' attributes.
  if (known.kind == CallKind::kPure) {
    for (PyObject* arg : args) values_.MarkExactReachable(arg);
  }
  if (PyFunction_Check(callable) && IsOld(callable) &&
      IsFirst(callable, nullptr)) {
    guards_.AddFunction(callable, NoteOf(CallableName(callable)));
  }
  for (const int index : known.read) {
    if (index < 0 || index >= static_cast<int>(args.size())) continue;
    if (!IsTensor(args[index]) || ReadNumbers(args[index])) continue;
    return Refuse(absl::StrCat("calls ", CallableName(callable),
                               ", which reads a large tensor's values"),
                  "pass it the few numbers that it needs");
  }
  for (const int index : known.changed) {
    if (index < 0 || index >= static_cast<int>(args.size())) continue;
    if (!IsTensor(args[index]) && !IsArray(args[index])) continue;
    return Refuse(absl::StrCat("calls ", CallableName(callable),
                               ", which writes a tensor's memory past torch"),
                  "write it by torch's operators, or outside the compiled "
                  "function");
  }
  if (known.kind == CallKind::kDraw) {
    return DrawNumber(callable, args, keyword_names);
  }
  if (known.kind == CallKind::kAsk || known.kind == CallKind::kClock) {
    return Ask(known.kind, callable, args, keyword_names);
  }
  if (known.kind == CallKind::kLog) {
    return Log(callable, args, keyword_names);
  }
  if (known.kind == CallKind::kGenerator) {
    return CallGenerator(callable, args, keyword_names);
  }
  if (known.kind == CallKind::kHost) {
    return CallHost(callable, args, keyword_names, SinkInC(callable, args));
  }
  for (PyObject* arg : args) TouchObject(arg, kDeepDepth);
}

bool StateWatch::IsFollowedCall(PyObject* callable) {
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  if (PyFunction_Check(callable)) return true;
  if (!IsPythonClass(Py_TYPE(callable)) || PyType_Check(callable)) return false;
  static PyObject* call = Interned("__call__");
  PyObject* method = _PyType_Lookup(Py_TYPE(callable), call);
  return method != nullptr && PyFunction_Check(method);
}

bool StateWatch::Moves(PyObject* callable) {
  // Others of the kind may ask Python code for a length or an index.
  if (PyType_Check(callable)) {
    PyTypeObject* type = AsType(callable);
    PyTypeObject* base = SolidBase(type);
    return (base == &PyList_Type || base == &PyTuple_Type ||
            base == &PyZip_Type) &&
           Py_TYPE(type)->tp_call == PyType_Type.tp_call;
  }
  if (KindOfBuiltin(callable) != CallKind::kMoves) return false;
  const std::string name = CallableName(callable);
  return name == "builtins.iter" || name == "builtins.next" ||
         absl::EndsWith(name, ".extend");
}

bool StateWatch::TakesItemsOf(PyObject* callable, PyObject* iterator) {
  if (!IsPureCall(callable) || IsOld(iterator) || IsInput(iterator)) {
    return false;
  }
  TouchDeep(iterator);
  return true;
}

void StateWatch::Move(PyObject* callable, absl::Span<PyObject* const> args) {
  const bool takes_index = absl::EndsWith(CallableName(callable), ".pop");
  for (size_t i = 0; i < args.size(); ++i) {
    // What is moved comes last.
    const bool is_moved = i + 1 == args.size() && !takes_index;
    if (is_moved && args[i] != nullptr && IsNumber(args[i])) continue;
    TouchObject(args[i], kShallowDepth);
  }
}

void StateWatch::MakeTensor(absl::Span<PyObject* const> args, bool copies) {
  is_making_tensor_ = true;
  if (copies && !args.empty() && PassNumberOf(args[0])) {
    args = args.subspan(1);
  }
  // Of a tensor, or of an array, it may be a view.
  makes_constant_ = true;
  for (PyObject* arg : args) {
    TouchObject(arg, kDeepDepth);
    if (IsConstant(arg) || PyList_CheckExact(arg)) continue;
    if (IsArray(arg)) {
      shares_array_ |= !copies;
      continue;
    }
    makes_constant_ = false;
  }
}

bool StateWatch::PassNumberOf(PyObject* data) {
  if (data == nullptr) return false;
  const bool is_list = (PyList_CheckExact(data) || PyTuple_CheckExact(data)) &&
                       PySequence_Fast_GET_SIZE(data) == 1;
  PyObject* number = is_list ? PySequence_Fast_GET_ITEM(data, 0) : data;
  if (!PyFloat_CheckExact(number) || values_.Find(number) < 0) return false;
  PassNumber(number);
  return true;
}

void StateWatch::AddNewArray(PyObject* array) {
  if (old_.contains(array) || inputs_.contains(array) ||
      guards_.HasArray(array)) {
    return;
  }
  if (young_.insert(array).second) pins_.push_back(PyRef::Share(array));
}

void StateWatch::CallGave(PyObject* result) {
  if (refusal_ || !on_made_ || !IsTensor(result) || !IsPlainTensor(result)) {
    return;
  }
  on_made_(result);
  if (shares_array_) Expose(result);
}

void StateWatch::CallScript(PyObject* function,
                            absl::Span<PyObject* const> args) {
  static PyObject* graph_name = Interned("inlined_graph");
  const PyRef graph = PyRef::Steal(PyObject_GetAttr(function, graph_name));
  if (!graph || !IsPureScript(graph.get(), 0)) {
    PyErr_Clear();
    return RefuseCall(function);
  }
  static const CallAnnotation pure{.kind = CallKind::kPure};
  CallAnnotated(pure, function, args, nullptr);
}

void StateWatch::GetAttributes(PyObject* getter,
                               absl::Span<PyObject* const> args,
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
    ReadAttribute(args[0], name);
    if (!is_in_c_code || refusal_) continue;
    PyObject* dict = InstanceDict(args[0]);
    PyObject* value =
        dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
    if (value == nullptr) {
      PyErr_Clear();
      return RefuseCall(getter);
    }
    TouchObject(value, kDeepDepth);
  }
}

void StateWatch::TouchArgs(absl::Span<PyObject* const> args) {
  const auto is_getter = [](PyObject* arg) {
    return arg != nullptr && IsAttributeGetterType(Py_TYPE(arg));
  };
  for (PyObject* arg : args) {
    if (arg != nullptr && !is_getter(arg)) IdentifyDeep(arg);
    if (!is_getter(arg)) TouchObject(arg, kDeepDepth);
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
        GetAttributes(getter, {&item, 1}, /*is_in_c_code=*/true);
      }
    }
  }
}

void StateWatch::TakeAddress(PyObject* object) {
  Identify(object);
  gives_address_ = true;
  constexpr size_t kMaxSites = 32;
  if (address_at_.line == 0) address_at_ = CurrentUserLine();
  if (looks_on_ && address_sites_.size() < kMaxSites) {
    address_sites_.push_back(SitesBelow(caller_));
  }
}

void StateWatch::CheckAddresses() {
  if (!values_.uses_address()) return;
  RefuseAddress();
  refusal_.at = address_at_;
  refusal_.places = address_sites_;
}

void StateWatch::Reduce(PyObject* callable, absl::Span<PyObject* const> args) {
  if (args.size() != 2) return RefuseCall(callable);
  PyObject* object = args[0];
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* reduce = Interned("__reduce__");
  static PyObject* names = Interned("__slotnames__");
  PyObject* method = _PyType_Lookup(type, reduce);
  PyObject* base = PyDict_GetItemWithError(PyBaseObject_Type.tp_dict, reduce);
  if (method != base) {  // Called instead: followed, or in the table.
    if (method == nullptr || PyFunction_Check(method) ||
        KindOfBuiltin(method) == CallKind::kPure) {
      return TouchType(type);
    }
    return RefuseCall(method);
  }
  if (!IsPythonClass(type) || SolidBase(type) != &PyBaseObject_Type ||
      HasSlots(type)) {
    return RefuseCall(callable);
  }
  // CPython keeps here, at the first such call, that there are no slots.
  if (PyDict_GetItemWithError(type->tp_dict, names) == nullptr) {
    const PyRef none = PyRef::Steal(PyList_New(0));
    if (!none || PyObject_SetAttr(reinterpret_cast<PyObject*>(type), names,
                                  none.get()) != 0) {
      PyErr_Clear();
    }
  }
  static PyObject* dict = Interned("__dict__");
  ReadAttribute(object, dict);
}

void StateWatch::AddAnswer(const AskedStates::Answer& answer) {
  guards_.AddAnswer(answer.function, answer.argument, answer.value.get(),
                    NoteOf(absl::StrCat(CallableName(answer.function), "()")));
}

void StateWatch::AskAgain(PyObject* callable,
                          absl::Span<PyObject* const> args) {
  static PyObject* cpu = Interned("cpu");
  // Of the CPU: part of TorchState.
  if (args.size() == 1 && SameValue(args[0], cpu)) return;
  const AskedStates::Answer* answer =
      asked_ == nullptr ? nullptr : asked_->Find(callable, args);
  if (answer == nullptr || !answer->value) return RefuseCall(callable);
  if (!IsConstant(answer->value.get())) {
    return Refuse(absl::StrCat("calls ", CallableName(callable),
                               ", which tells of an object of the caller's"));
  }
  AddAnswer(*answer);
}

void StateWatch::UseItemBy(PyObject* method, absl::Span<PyObject* const> args) {
  PyObject *dict = args[0], *key = args[1];
  PyObject* value = args.size() > 2 ? args[2] : nullptr;
  if (value != nullptr && !IsNumber(value)) Touch(value);
  const std::string name = CallableName(method);
  if (absl::EndsWith(name, "__delitem__")) return RemoveItem(dict, key);
  const bool is_set = absl::EndsWith(name, "__setitem__");
  if (!is_set) UseItem(dict, key);
  const bool is_pop = absl::EndsWith(name, ".pop");
  const bool is_default = absl::EndsWith(name, ".setdefault");
  if (refusal_ || !(is_set || is_pop || is_default)) return;
  const int has = PyDict_Check(dict) ? PyDict_Contains(dict, key) : 0;
  if (has < 0) return PyErr_Clear();  // Raises.
  if (is_pop && has != 0) return RemoveItem(dict, key);
  if (is_pop || (is_default && has != 0)) return;
  if (value == nullptr) value = Py_None;
  Store(dict, value);
  WriteItem(dict, key, value);
}

void StateWatch::CallType(PyTypeObject* type,
                          absl::Span<PyObject* const> args) {
  PyTypeObject* meta = Py_TYPE(type);
  TouchType(meta);
  TouchType(type);
  if (type == &PyType_Type && args.size() == 1) {
    return TouchClassOf(args[0]);
  }
  PyTypeObject* base = SolidBase(type);
  if (IsTensorConstructor(type)) return MakeTensor(args);
  if (IsTorchGeneratorType(type)) return MakeGenerator(type, args);
  if (type == &PyUnicode_Type) {
    for (PyObject* arg : args) Format(arg);
    return;
  }
  if (args.size() == 1 && values_.Find(args[0]) >= 0) {
    // float(x) of a float is x itself, and int(n) of an int.
    if (type == Py_TYPE(args[0])) return;
    if (type == &PyFloat_Type) {
      static PyObject* one = PyFloat_FromDouble(1);
      return Compute(FindHostOp("mica.scalar_mul"), {args[0], one});
    }
    if (type == &PyLong_Type && Round("builtins.int", args)) return;
  }
  const bool is_plain_number =
      type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type;
  if (is_plain_number && args.size() == 1 &&
      absl::string_view(Py_TYPE(args[0])->tp_name) == "decimal.Decimal") {
    return;  // No context takes part.
  }
  static PyObject* make = Interned("__new__");
  PyObject* maker = _PyType_Lookup(type, make);
  // torch.nn.Parameter: Python code makes the object; what it does is followed.
  if (maker != nullptr && Py_TYPE(maker) == &PyStaticMethod_Type &&
      IsTensorType(type)) {
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
  makes_iterator_ = true;
  // What calls a function when its object dies isn't followed.
  if (base == &_PyWeakref_RefType && args.size() != 1 &&
      !(args.size() == 2 && !IsOld(args[0]) && ForgetsItem(args[1]))) {
    return RefuseCall(reinterpret_cast<PyObject*>(type));
  }
  if (IsMovingType(base)) {
    for (PyObject* arg : args) {
      // Where enumerate() begins; else what Python code gets.
      if (type != base && arg != nullptr && IsNumber(arg)) continue;
      TouchObject(arg, kShallowDepth);
    }
    return;
  }
  // Python's own __init__ gets the arguments: what it reads is followed.
  if (IsPythonClass(type) && base == &PyBaseObject_Type) return;
  TouchArgs(args);
}

void StateWatch::CallBuiltin(PyObject* callable,
                             absl::Span<PyObject* const> args,
                             PyObject* keyword_names) {
  const CallAnnotation* known = FindAnnotation(callable);
  const CallKind kind = known == nullptr ? CallKind::kUnknown : known->kind;
  // A method bound to an object takes that as its first argument.
  std::vector<PyObject*> all;
  const PyRef self = SelfOfCall(callable);
  if (self) all.push_back(self.get());
  all.insert(all.end(), args.begin(), args.end());
  if (known != nullptr && !(known->read.empty() && known->changed.empty())) {
    return CallAnnotated(*known, callable, all, keyword_names);
  }
  if (!FollowsNumbers(kind)) {
    for (PyObject* arg : all) values_.MarkExactDeep(arg);
  }
  if (!all.empty() && ChangesContainer(callable, all[0])) {
    NoteChange(all[0]);
    if (IsOld(all[0])) changed_by_call_.insert(all[0]);
  }
  switch (kind) {
    case CallKind::kUnknown:
      return RefuseCall(callable);
    case CallKind::kEndsGraph:
    case CallKind::kLog:
    case CallKind::kHost:
      return CallAnnotated(*known, callable, all, keyword_names);
    case CallKind::kReadsData:
      if (absl::EndsWith(CallableName(callable), "._pad_packed_sequence") &&
          all.size() > 1) {
        ReadLengths(all[1]);
        is_making_tensor_ = true;  // The lengths that it gives.
        return TouchObject(all[0], kShallowDepth);
      }
      return ReadData(callable, all);
    case CallKind::kReadsOffset:
      reads_offsets_ = true;
      for (PyObject* arg : all) TouchObject(arg, kShallowDepth);
      return;
    case CallKind::kRecurrent:
      // (data, batch_sizes, state, weights, …) as against (input, state,
      // weights, …).
      if (all.size() > 3 && (PyList_Check(all[3]) || PyTuple_Check(all[3]))) {
        ReadLengths(all[1]);
      }
      for (PyObject* arg : all) TouchObject(arg, kDeepDepth);
      return;
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
      if (kind == CallKind::kMakesTensor) {
        const std::string name = CallableName(callable);
        return MakeTensor(all, absl::EndsWith(name, ".tensor") ||
                                   absl::EndsWith(name, ".new_tensor"));
      }
      [[fallthrough]];
    case CallKind::kNumberFunction:
      if (kind == CallKind::kNumberFunction && all.size() == 1 &&
          values_.Find(all[0]) >= 0) {
        const std::string name = CallableName(callable);
        return Compute(FindHostOp(absl::StrCat(
                           "mica.scalar_", name.substr(name.rfind('.') + 1))),
                       {all[0]});
      }
      [[fallthrough]];
    case CallKind::kPure:
      if (keyword_names == nullptr && AskOfNumbers(callable, all)) return;
      makes_array_ = IsNumpyCall(callable, all);
      if (makes_array_) TouchNumpyContext();
      makes_iterator_ = all.size() == 1 && !PyIter_Check(all[0]);
      if (all.size() == 1 && CallableName(callable) == "builtins.hash") {
        TakeHash(all[0]);
      } else if (AsksIdentity(callable) && !ShareNumbers(args)) {
        return Refuse("compares the identity of numbers that vary");
      }
      if (kind == CallKind::kPure && keyword_names == nullptr &&
          (ChangeContainer(callable, all) || KeepsAddress(callable, all))) {
        return;
      }
      makes_new_ = absl::EndsWith(CallableName(callable), "_make_saved_tensor");
      if (HandsOnArguments(callable)) {
        for (PyObject* arg : all) {
          if (values_.Find(arg) < 0) TouchObject(arg, kDeepDepth);
        }
        return;
      }
      return TouchArgs(all);
    case CallKind::kMoves:
      makes_array_ = IsNumpyCall(callable, all);
      makes_iterator_ = all.size() == 1 && !PyIter_Check(all[0]);
      if (keyword_names != nullptr ||
          (CallableName(callable) == "builtins.iter" && all.size() == 2)) {
        for (PyObject* arg : all) TouchObject(arg, kDeepDepth);
        return;
      }
      if (all.empty() || ChangeContainer(callable, all)) return;
      TouchObject(all[0], kShallowDepth);
      return Move(callable, absl::MakeSpan(all).subspan(1));
    case CallKind::kOperator:
      is_allocating_ = IsAllocation(callable);
      for (PyObject* arg : all) {
        if (arg != nullptr && values_.Find(arg) >= 0) {
          PassNumber(arg);
        } else if (arg != nullptr &&
                   (PyList_CheckExact(arg) || PyTuple_CheckExact(arg)) &&
                   values_.HasKnown(arg)) {
          PassNumbers(arg);
        } else {
          passes_tensors_ |= arg != nullptr && IsTensor(arg);
          TouchObject(arg, kDeepDepth);
        }
      }
      return;
    case CallKind::kRegistry:
      if (asked_ != nullptr) AddAnswer(*asked_->RegistryToken());
      [[fallthrough]];
    case CallKind::kTypes:
      return TouchClasses(all);
    case CallKind::kSetsState:
      if (absl::EndsWith(CallableName(callable),
                         "._push_saved_tensors_default_hooks")) {
        NoteSavedTensorHooks();
      }
      return;
    case CallKind::kReadsState:
      if (CallableName(callable) == "sys.gettrace") {
        in_place_of_call_ = MutedCall(nullptr);
      }
      return;
    case CallKind::kAsksAgain:
      return keyword_names == nullptr ? AskAgain(callable, all)
                                      : RefuseCall(callable);
    case CallKind::kGetAttr:
    case CallKind::kSetAttr:
      if (all.size() < 2) return;
      if (kind == CallKind::kGetAttr) return ReadAttribute(all[0], all[1]);
      if (all.size() == 2) return RemoveAttribute(all[0], all[1]);
      Store(all[0], all[2]);
      return WriteAttribute(all[0], all[1]);
    case CallKind::kUseItem:
      if (all.size() >= 2) UseItemBy(callable, all);
      return;
    case CallKind::kContext: {
      if (all.empty() || !PyContextVar_CheckExact(all[0])) return;
      if (!IsOld(all[0])) return;
      guards_.AddContextVar(all[0], NoteOf(PathOf(all[0])));
      for (size_t i = 1; i < all.size(); ++i) values_.MarkExactDeep(all[i]);
      PyObject* value = nullptr;
      if (PyContextVar_Get(all[0], nullptr, &value) != 0) PyErr_Clear();
      if (value == nullptr) return;
      MarkOld(value, PathOf(all[0]));
      Py_DECREF(value);
      return;
    }
    case CallKind::kPrint:
      return Print(callable, args, keyword_names);
    case CallKind::kWarn:
      return Warn(args, keyword_names);
    case CallKind::kNewFilters:
      return AddHostCall(callable, {}, nullptr, "_filters_mutated",
                         {.kind = Sink::Kind::kSilent});
    case CallKind::kVars: {
      static PyObject* dict = Interned("__dict__");
      if (all.empty()) return RefuseCall(callable);
      return ReadAttribute(all[0], dict);
    }
    case CallKind::kSeeds:
    case CallKind::kDraw:
    case CallKind::kAsk:
    case CallKind::kClock:
    case CallKind::kGenerator:
      return CallAnnotated(*known, callable, all, keyword_names);
    case CallKind::kLock:
      // Waits for it; the others are done with it by then.
      if (all.empty() || (all.size() != 1 && all.size() != 4)) {
        return RefuseCall(callable);
      }
      return TouchObject(all[0], kShallowDepth);
    case CallKind::kIdentity:
      if (!ShareNumbers(args)) return TakeAddress(all[0]);
      if (all.empty() || IsConstant(all[0])) return;
      if (PyType_Check(all[0]) || (IsOld(all[0]) && !IsInput(all[0]))) return;
      return TakeAddress(all[0]);
    case CallKind::kReduce:
      return Reduce(callable, all);
    case CallKind::kText:
      return MakeText(callable, all, keyword_names, *this);
    case CallKind::kNew:
      if (!all.empty() && PyType_Check(all[0])) {
        // all[0] is the type that owns the function, all[1] the one to make.
        if (!IsPureType(SolidBase(AsType(all[0])))) return RefuseCall(callable);
        const int depth = IsMovingType(SolidBase(AsType(all[0])))
                              ? kShallowDepth
                              : kDeepDepth;
        for (PyObject* arg : all) TouchObject(arg, depth);
      }
      return;
  }
}

}  // namespace mica
