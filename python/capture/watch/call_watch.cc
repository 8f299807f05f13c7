#include "python/capture/watch/call_watch.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/reference/host_arithmetic.h"
#include "python/capture/known/purity.h"
#include "python/capture/known/stand_ins.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/call_facts.h"
#include "python/capture/watch/object_kinds.h"
#include "python/interpreter/call_with_names.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {

namespace {

// As CPython says that arguments don't fit a function's parameters.
bool IsOfBinding(absl::string_view message) {
  constexpr absl::string_view kWords[] = {
      "() takes ", "() missing ", "() got an unexpected keyword argument",
      "() got multiple values for argument", "() got some positional-only "};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [message](absl::string_view words) {
                       return absl::StrContains(message, words);
                     });
}

}  // namespace

void CallWatch::Raised(PyObject* error) {
  if (refusal() || error == nullptr) return;
  if (Py_TYPE(error) != reinterpret_cast<PyTypeObject*>(PyExc_TypeError)) {
    return;
  }
  const PyRef text = PyRef::Steal(PyObject_Str(error));
  if (!text) return PyErr_Clear();
  if (!IsOfBinding(PyText(text.get()))) return;
  Refuse("calls a function with arguments that it doesn't take");
}

void CallWatch::Call(PyObject* callable, absl::Span<PyObject* const> args,
                     PyObject* keyword_names) {
  if (refusal() || callable == nullptr) return;
  if (PyObject* inner = FindInside(callable)) {
    MarkOld(inner, PathOf(callable));
    return Call(inner, args, keyword_names);
  }
  if (PyMethod_Check(callable)) {
    std::vector<PyObject*> all = {PyMethod_GET_SELF(callable)};
    all.insert(all.end(), args.begin(), args.end());
    return Call(PyMethod_GET_FUNCTION(callable), all, keyword_names);
  }
  PyTypeObject* type = Py_TYPE(callable);
  if (PyCFunction_Check(callable) || type == &PyMethodDescr_Type ||
      type == &PyClassMethodDescr_Type || type == &PyWrapperDescr_Type ||
      type == MethodWrapperType()) {
    return parts_.builtins.Call(callable, args, keyword_names);
  }
  // Those of weak dicts are of a class of their own.
  if (PyWeakref_CheckRef(callable) &&
      type->tp_call == _PyWeakref_RefType.tp_call) {
    if (!IsOld(callable)) return;
    guards_.AddWeakRef(callable, NoteOf(PathOf(callable)));
    return MarkOld(PyWeakref_GetObject(callable), PathOf(callable));
  }
  if (const CallAnnotation* known = FindAnnotation(callable)) {
    return parts_.annotated.Call(*known, callable, args, keyword_names);
  }
  if (PyFunction_Check(callable)) return;  // Followed as it runs.
  if (PyType_Check(callable)) {
    // dict(key=value) hands its keywords on.
    const bool is_dict = callable == reinterpret_cast<PyObject*>(&PyDict_Type);
    const size_t num_moved = is_dict ? NumNames(keyword_names) : 0;
    const auto others = args.first(args.size() - num_moved);
    if (is_dict && others.size() == 1 && RunsForItems(others[0])) {
      step_.in_place_of_call = FunctionInPython("as_dict");
      if (step_.in_place_of_call) return;
    }
    const bool is_list = callable == reinterpret_cast<PyObject*>(&PyList_Type);
    const bool is_tuple =
        callable == reinterpret_cast<PyObject*>(&PyTuple_Type);
    if ((is_list || is_tuple) && args.size() == 1 &&
        PyGen_CheckExact(args[0]) && parts_.loops.is_on()) {
      step_.in_place_of_call = FunctionInPython(is_list ? "listed" : "tupled");
      if (step_.in_place_of_call) return;
    }
    if (MapsInPython(callable, args)) return;
    if (MakesTextInPython(callable, args)) return;
    return CallType(AsType(callable), others);
  }
  if (IsScriptFunctionType(type)) return CallScript(callable, args);
  if (IsAttributeGetterType(type)) {
    return parts_.attributes.GetBy(callable, args, /*is_in_c_code=*/false);
  }
  if (IsPureCallableType(type)) {
    return CallPureObject(callable, args, keyword_names);
  }
  CallInstance(callable, args, keyword_names);
}

// map() of a function in C: what that gives no step shows.
bool CallWatch::MapsInPython(PyObject* callable,
                             absl::Span<PyObject* const> args) {
  if (callable != reinterpret_cast<PyObject*>(&PyMap_Type) || args.size() < 2 ||
      (values_.empty() && !parts_.loops.is_on())) {
    return false;
  }
  constexpr Py_ssize_t kMostItems = 1024;
  for (PyObject* items : args.subspan(1)) {
    if (PyList_CheckExact(items) && PyList_GET_SIZE(items) > kMostItems) {
      return false;
    }
  }
  PyObject* function = args[0];
  if (!PyCFunction_Check(function) &&
      !Py_IS_TYPE(function, &PyMethodDescr_Type) &&
      function != reinterpret_cast<PyObject*>(&PyLong_Type) &&
      function != reinterpret_cast<PyObject*>(&PyFloat_Type)) {
    return false;
  }
  step_.in_place_of_call = FunctionInPython("map_items", "mica.folds");
  return static_cast<bool>(step_.in_place_of_call);
}

bool CallWatch::MakesTextInPython(PyObject* callable,
                                  absl::Span<PyObject* const> args) {
  if (callable != reinterpret_cast<PyObject*>(&PyUnicode_Type) ||
      args.size() != 1 || !parts_.builtins.TellsNumbers(args[0])) {
    return false;
  }
  step_.in_place_of_call = FunctionInPython("text_of");
  return static_cast<bool>(step_.in_place_of_call);
}

void CallWatch::CallInstance(PyObject* callable,
                             absl::Span<PyObject* const> args,
                             PyObject* keyword_names) {
  PyTypeObject* type = Py_TYPE(callable);
  parts_.objects.TouchType(type);
  parts_.objects.TouchClassOf(callable);
  static PyObject* call = Interned("__call__");
  PyObject* method = _PyType_Lookup(type, call);
  if (method == nullptr) return;  // Raises.
  std::vector<PyObject*> all = {callable};
  all.insert(all.end(), args.begin(), args.end());
  if (PyFunction_Check(method)) return Call(method, all, keyword_names);
  if (const CallAnnotation* known = FindAnnotation(method)) {
    return parts_.annotated.Call(*known, method, all, keyword_names);
  }
  RefuseCall(callable);
}

void CallWatch::CallPureObject(PyObject* callable,
                               absl::Span<PyObject* const> args,
                               PyObject* keyword_names) {
  PyTypeObject* type = Py_TYPE(callable);
  step_.makes_array = true;
  if (absl::StartsWith(type->tp_name, "numpy.")) parts_.arrays.TouchContext();
  parts_.objects.TouchType(type);
  if (keyword_names == nullptr && parts_.functions.AskNumpy(callable, args)) {
    return;
  }
  for (PyObject* arg : args) {
    if (arg != nullptr) parts_.identity.IdentifyDeep(arg);  // A cache's key.
    parts_.objects.Touch(arg, kDeep);
  }
  if (IsLruCache(callable) && IsOld(callable)) {
    CallCached(callable, args, keyword_names);
  } else if (absl::string_view(type->tp_name) == "functools.partial") {
    CallPartial(callable, args, keyword_names);
  }
}

void CallWatch::CallPartial(PyObject* partial, absl::Span<PyObject* const> args,
                            PyObject* keyword_names) {
  PyRef function = PyRef::Steal(PyObject_GetAttrString(partial, "func"));
  PyRef bound = PyRef::Steal(PyObject_GetAttrString(partial, "args"));
  PyRef keywords = PyRef::Steal(PyObject_GetAttrString(partial, "keywords"));
  if (!function || !bound || !keywords) return PyErr_Clear();
  if (IsOld(partial)) {
    // Its __setstate__() gives it others.
    for (const char* name : {"func", "args", "keywords"}) {
      const PyRef word = PyRef::Steal(PyUnicode_InternFromString(name));
      parts_.objects.HoldAttribute(partial, word.get());
    }
    MarkOld(function.get(), absl::StrCat(PathOf(partial), ".func"));
    MarkOld(bound.get(), absl::StrCat(PathOf(partial), ".args"));
    MarkOld(keywords.get(), absl::StrCat(PathOf(partial), ".keywords"));
    parts_.objects.Touch(keywords.get());
  }
  parts_.objects.Touch(bound.get());
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

bool CallWatch::Convert(PyTypeObject* type, absl::Span<PyObject* const> args) {
  if (args.size() != 1) return false;
  if (values_.Find(args[0]) >= 0) {
    // float(x) of a float is x itself, and int(n) of an int.
    if (type == Py_TYPE(args[0])) return true;
    if (type == &PyFloat_Type) {
      static PyObject* one = PyFloat_FromDouble(1);
      parts_.numbers.Compute(FindHostOp("mica.scalar_mul"), {args[0], one});
      return true;
    }
    if (type == &PyBool_Type) {
      parts_.numbers.TestTruth(args[0]);
      return true;
    }
    if (type == &PyLong_Type && NumberOf(args[0]).has_value() &&
        parts_.functions.Round("builtins.int", args)) {
      return true;
    }
  }
  const bool is_plain_number =
      type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type;
  // No context takes part.
  return is_plain_number &&
         absl::string_view(Py_TYPE(args[0])->tp_name) == "decimal.Decimal";
}

bool CallWatch::MakeDict(absl::Span<PyObject* const> args) {
  if (args.empty()) return true;
  if (args.size() > 1) return false;
  if (PyList_CheckExact(args[0])) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); ++i) {
      PyObject* pair = PyList_GET_ITEM(args[0], i);
      if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2) {
        return false;
      }
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); ++i) {
      PyObject* pair = PyList_GET_ITEM(args[0], i);
      parts_.objects.Inspect(PyTuple_GET_ITEM(pair, 0));
    }
  } else if (!PyDict_CheckExact(args[0])) {
    return false;
  }
  parts_.objects.Touch(args[0]);
  return true;
}

void CallWatch::CallType(PyTypeObject* type, absl::Span<PyObject* const> args) {
  auto* callable = reinterpret_cast<PyObject*>(type);
  PyTypeObject* meta = Py_TYPE(type);
  parts_.objects.TouchType(meta);
  parts_.objects.TouchType(type);
  if (type == &PyType_Type && args.size() == 1) {
    return parts_.objects.TouchClassOf(args[0]);
  }
  PyTypeObject* base = SolidBase(type);
  if (IsTensorConstructor(type)) return parts_.tensors.Make(args);
  if (IsTorchGeneratorType(type)) return parts_.generators.Make(type, args);
  if (type == &PyUnicode_Type) {
    for (PyObject* arg : args) parts_.objects.Format(arg);
    return;
  }
  if ((type == &PyDict_Type || type == &PyODict_Type) && MakeDict(args)) return;
  if (Convert(type, args)) return;
  if (type == &PyRange_Type && parts_.loops.MakeRange(args)) return;
  if (type == &PyReversed_Type && parts_.loops.ReverseRange(args)) return;
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
    return RefuseCall(callable);
  }
  step_.makes_iterator = true;
  // What calls a function when its object dies isn't followed.
  if (base == &_PyWeakref_RefType && args.size() != 1 &&
      !(args.size() == 2 && !IsOld(args[0]) && ForgetsItem(args[1]))) {
    return RefuseCall(callable);
  }
  if (IsMovingType(base)) {
    for (PyObject* arg : args) {
      // Where enumerate() begins; else what Python code gets.
      if (type != base && arg != nullptr && IsScalar(arg)) continue;
      parts_.objects.Touch(arg);
    }
    return;
  }
  // Python's own __init__ gets the arguments: what it reads is followed.
  if (IsPythonClass(type) && base == &PyBaseObject_Type) return;
  PyObject* items = nullptr;
  if (TakesItems(callable, args, &items) && parts_.objects.TouchNames(items)) {
    return;
  }
  parts_.attributes.TouchArgs(args);
}

void CallWatch::CallCached(PyObject* wrapper, absl::Span<PyObject* const> args,
                           PyObject* keyword_names) {
  // It answers from what it computed before, and may compute now.
  PyObject* cache = LruCacheDict(wrapper);
  if (cache == nullptr) return RefuseCall(wrapper);
  const std::string path = PathOf(wrapper);
  MarkOld(cache, absl::StrCat("the cache of ", path));
  parts_.objects.Touch(cache);
  for (PyObject* result : LruCacheResults(cache)) {
    MarkOld(result, absl::StrCat("a result of ", path));
  }
  if (refusal() || CacheUses::IsLibraryCache(wrapper)) return;
  parts_.caches.Use(wrapper, /*num_calls=*/1);
  for (PyObject* arg : args) {
    if (IsConstant(arg)) continue;
    if (IsOld(arg) && !IsInput(arg) && !IsTensor(arg)) continue;
    return Refuse(absl::StrCat("looks up a ", TypeName(Py_TYPE(arg)), " in ",
                               path, ", a cache"),
                  "look it up outside the compiled function");
  }
  parts_.host_calls.AddCached(wrapper, args, keyword_names, path);
}

void CallWatch::CallScript(PyObject* function,
                           absl::Span<PyObject* const> args) {
  static PyObject* graph_name = Interned("inlined_graph");
  const PyRef graph = PyRef::Steal(PyObject_GetAttr(function, graph_name));
  if (!graph || !IsPureScript(graph.get(), 0)) {
    PyErr_Clear();
    return RefuseCall(function);
  }
  static const CallAnnotation pure{.kind = CallKind::kPure};
  parts_.annotated.Call(pure, function, args, nullptr);
}

bool CallWatch::IsFollowedCall(PyObject* callable) {
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  if (PyFunction_Check(callable)) return true;
  if (!IsPythonClass(Py_TYPE(callable)) || PyType_Check(callable)) return false;
  static PyObject* call = Interned("__call__");
  PyObject* method = _PyType_Lookup(Py_TYPE(callable), call);
  return method != nullptr && PyFunction_Check(method);
}

bool CallWatch::Moves(PyObject* callable) {
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

bool CallWatch::MayTakeOut(PyObject* callable,
                           absl::Span<PyObject* const> args) {
  PyObject* self = nullptr;
  if (PyCFunction_Check(callable)) {
    self = PyCFunction_GET_SELF(callable);
  } else if (!args.empty() && (Py_IS_TYPE(callable, &PyMethodDescr_Type) ||
                               Py_IS_TYPE(callable, &PyWrapperDescr_Type))) {
    self = args[0];
  }
  return self != nullptr &&
         (PyDict_Check(self) || PyList_Check(self) || PyAnySet_Check(self) ||
          (DequeType() != nullptr && PyObject_TypeCheck(self, DequeType())));
}

bool CallWatch::TakesItemsOf(PyObject* callable, PyObject* iterator) {
  if (!IsPureCall(callable) || IsOld(iterator) || IsInput(iterator)) {
    return false;
  }
  parts_.objects.Touch(iterator, kDeep);
  return true;
}

}  // namespace mica
