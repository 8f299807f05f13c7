#include "python/capture/known/purity.h"

#include <initializer_list>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "python/capture/known/purity_words.h"
#include "python/capture/known/state_getters.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/recorder/recorder.h"
#include "python/torch_side/tensors/tensor_access.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

using Words = std::initializer_list<absl::string_view>;

// ---- The table. ----

struct Purity {
  absl::node_hash_map<const PyMethodDef*, CallAnnotation> functions;
  // pybind11's functions share no PyMethodDef, nor do slot wrappers; and all
  // that isn't a function in C.
  absl::node_hash_map<const void*, CallAnnotation> objects;
  absl::node_hash_map<const void*, CallAnnotation> users;
  absl::flat_hash_set<PyTypeObject*> pure_types;
  absl::flat_hash_set<PyTypeObject*> moving_types;
  absl::flat_hash_set<PyTypeObject*> immutable_types;
  absl::flat_hash_set<PyTypeObject*> callable_types;
  absl::flat_hash_set<PyTypeObject*> operator_types;
  absl::flat_hash_set<PyTypeObject*> contextual_types;
  absl::flat_hash_set<absl::string_view> tensor_attributes;
  absl::flat_hash_set<absl::string_view> grad_attributes;
  const PyMethodDef* tp_new = nullptr;
  PyObject* tensor = nullptr;  // torch.Tensor.
  PyTypeObject* attribute_getter = nullptr;
  PyTypeObject* script_function = nullptr;
};
Purity* purity = nullptr;

const PyMethodDef* MethodDefOf(PyObject* callable) {
  if (PyCFunction_Check(callable)) {
    return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  }
  if (Py_TYPE(callable) == &PyMethodDescr_Type ||
      Py_TYPE(callable) == &PyClassMethodDescr_Type) {
    return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  }
  return nullptr;
}

// A function in C of a kind of its own.
bool IsCythonFunction(PyObject* callable) {
  return absl::EndsWith(Py_TYPE(callable)->tp_name,
                        "cython_function_or_method");
}

void Add(PyObject* callable, CallKind kind) {
  if (PyInstanceMethod_Check(callable)) {  // pybind11's.
    callable = PyInstanceMethod_GET_FUNCTION(callable);
  }
  if (const PyMethodDef* method = MethodDefOf(callable)) {
    purity->functions[method] = {.kind = kind};
  } else if (Py_TYPE(callable) == &PyWrapperDescr_Type ||
             PyType_Check(callable) || PyFunction_Check(callable) ||
             IsCythonFunction(callable)) {
    Py_INCREF(callable);  // For the life of the process, as the table.
    purity->objects[callable] = {.kind = kind};
  }
}

void Add(absl::string_view path, CallKind kind) {
  if (PyRef object = ResolveName(path)) Add(object.get(), kind);
}

template <typename F>
void ForEachAttribute(PyObject* owner, F&& visit) {
  PyObject* dict = PyModule_Check(owner)
                       ? PyModule_GetDict(owner)
                       : reinterpret_cast<PyTypeObject*>(owner)->tp_dict;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    visit(PyText(key), value);
  }
}

void AddMethods(PyTypeObject* type, CallKind kind) {
  purity->operator_types.insert(type);
  ForEachAttribute(reinterpret_cast<PyObject*>(type),
                   [&](const std::string& name, PyObject* value) {
                     if (name == "__new__") return;
                     if (Py_TYPE(value) == &PyStaticMethod_Type) return;
                     if (PyType_Check(value)) return;
                     Add(value, kind);
                   });
}

// A type of this path, or null.
PyTypeObject* ResolveType(absl::string_view path) {
  PyRef type = ResolveName(path);
  if (!type || !PyType_Check(type.get())) return nullptr;
  return AsType(type.release());  // For the life of the process.
}

void AddMethods(absl::string_view path, CallKind kind) {
  if (PyTypeObject* type = ResolveType(path)) AddMethods(type, kind);
}

template <typename List>
bool Contains(const List& list, absl::string_view word) {
  for (const absl::string_view item : list) {
    if (item == word) return true;
  }
  return false;
}

void AddPython() {
  for (const auto path : kPureFunctions) Add(path, CallKind::kPure);
  for (const auto path : kTypeFunctions) Add(path, CallKind::kTypes);
  for (const auto path : kRegistryFunctions) Add(path, CallKind::kRegistry);
  for (const auto path : kStateSetters) Add(path, CallKind::kSetsState);
  for (const StateGetter& getter : kStateGetters) {
    Add(getter.name, getter.guard == kAskedAgain ? CallKind::kAsksAgain
                                                 : CallKind::kReadsState);
  }
  for (const StateGetter& getter : kStateGettersOfDevices) {
    Add(getter.name, CallKind::kAsksAgain);
  }
  for (const auto name : kPureModules) {
    PyRef module = ResolveName(name);
    if (!module) continue;
    ForEachAttribute(module.get(), [&](const std::string& word, PyObject* f) {
      if (PyCFunction_Check(f) &&
          !Contains(kImpureOfPureModules, absl::StrCat(name, ".", word))) {
        Add(f, CallKind::kPure);
      }
    });
  }
  for (PyTypeObject* type :
       {&PyUnicode_Type,
        &PyBytes_Type,
        &PyLong_Type,
        &PyFloat_Type,
        &PyComplex_Type,
        &PyBool_Type,
        &PyTuple_Type,
        &PyList_Type,
        &PyDict_Type,
        &PySet_Type,
        &PyFrozenSet_Type,
        &PyRange_Type,
        &PySlice_Type,
        &PyODict_Type,
        &PyByteArray_Type,
        &PyProperty_Type,
        &PyDictKeys_Type,
        &PyDictValues_Type,
        &PyDictItems_Type,
        &PyDictProxy_Type,
        &PyGen_Type,
        &PySuper_Type,
        reinterpret_cast<PyTypeObject*>(PyExc_BaseException)}) {
    AddMethods(type, CallKind::kPure);
  }
  for (const auto path :
       {"collections.deque", "collections.defaultdict", "re.Pattern",
        "re.Match", "datetime.timedelta", "torch.Size", "torch.dtype",
        "numpy.generic", "numpy.dtype", "numpy.ufunc",
        "numpy._core._multiarray_umath._array_converter", "numpy.broadcast",
        "numpy.flatiter", "numpy.nditer"}) {
    AddMethods(path, CallKind::kPure);
  }
  if (PyTypeObject* array = ResolveType("numpy.ndarray")) {
    purity->operator_types.insert(array);
    ForEachAttribute(reinterpret_cast<PyObject*>(array),
                     [](const std::string& name, PyObject* f) {
                       if (!Contains(kUnsafeArrayMethods, name)) {
                         Add(f, CallKind::kPure);
                       }
                     });
  }
  for (const auto path : kMovingFunctions) Add(path, CallKind::kMoves);
  // Of one item; whole dicts are rarely read.
  for (const auto path :
       {"builtins.dict.get", "builtins.dict.__getitem__",
        "builtins.dict.__contains__", "builtins.dict.__setitem__",
        "builtins.dict.__delitem__", "builtins.dict.setdefault",
        "builtins.dict.pop", "types.MappingProxyType.get",
        "collections.OrderedDict.__setitem__", "collections.OrderedDict.pop"}) {
    Add(path, CallKind::kUseItem);
  }
  for (const auto path : {"builtins.getattr", "builtins.hasattr",
                          "types.ModuleType.__getattribute__",
                          "builtins.object.__getattribute__"}) {
    Add(path, CallKind::kGetAttr);
  }
  for (const auto path :
       {"builtins.setattr", "builtins.delattr", "builtins.object.__setattr__",
        "builtins.object.__delattr__"}) {
    Add(path, CallKind::kSetAttr);
  }
  for (const auto path :
       {"builtins.object.__str__", "builtins.repr", "builtins.format",
        "builtins.str.format", "builtins.str.format_map",
        "builtins.object.__format__"}) {
    Add(path, CallKind::kText);
  }
  for (const auto path :
       {"contextvars.ContextVar.get", "contextvars.ContextVar.set",
        "contextvars.ContextVar.reset"}) {
    Add(path, CallKind::kContext);
  }
  for (const auto path : {"_random.Random", "numpy.random.RandomState",
                          "numpy.random.Generator"}) {
    AddMethods(path, CallKind::kDraw);
  }
  for (const auto name : kRandomMethods) {
    Add(absl::StrCat("random.Random.", name), CallKind::kDraw);
  }
  for (const auto path : kClocks) Add(path, CallKind::kClock);
  for (const char* name :
       {"get_state", "set_state", "manual_seed", "initial_seed"}) {
    Add(absl::StrCat("torch._C.Generator.", name), CallKind::kGenerator);
  }
  // It seeds generators of other devices, too, if there may be some.
  if (!MayHaveDevices()) Add("torch.random.manual_seed", CallKind::kGenerator);
  Add("torch.get_num_threads", CallKind::kAsk);
  for (const auto path : kSeeded) Add(path, CallKind::kSeeds);
  for (const char* type : {"_thread.LockType", "_thread.RLock"}) {
    for (const char* name : {"acquire", "release", "__enter__", "__exit__"}) {
      Add(absl::StrCat(type, ".", name), CallKind::kLock);
    }
  }
  Add("builtins.vars", CallKind::kVars);
  Add("builtins.id", CallKind::kIdentity);
  Add("builtins.object.__reduce_ex__", CallKind::kReduce);
  for (const char* name : {"cos", "exp", "log", "sin", "sqrt"}) {
    Add(absl::StrCat("math.", name), CallKind::kNumberFunction);
  }
  Add("builtins.print", CallKind::kPrint);
  for (const char* name :
       {"debug", "info", "warning", "error", "critical", "log"}) {
    Add(absl::StrCat("logging.Logger.", name), CallKind::kLog);
  }
  Add("_warnings.warn", CallKind::kWarn);
  Add("_warnings._filters_mutated", CallKind::kNewFilters);
  Add("torch.autograd.Variable._execution_engine.run_backward",
      CallKind::kBackward);
  if (PyRef make = ResolveName("builtins.object.__new__")) {
    purity->tp_new = MethodDefOf(make.get());
    purity->functions[purity->tp_new] = {.kind = CallKind::kNew};
  }
}

void AddTypes() {
  const auto add = [](absl::string_view path,
                      absl::flat_hash_set<PyTypeObject*>* to) {
    if (PyTypeObject* type = ResolveType(path)) to->insert(type);
  };
  for (const auto path : kPureTypes) add(path, &purity->pure_types);
  for (const auto path : kMovingTypes) add(path, &purity->moving_types);
  for (const auto path : kImmutableTypes) add(path, &purity->immutable_types);
  for (const auto path : kContextualTypes) add(path, &purity->contextual_types);
  for (const auto path :
       {"numpy.ufunc", "numpy._core._multiarray_umath._ArrayFunctionDispatcher",
        "functools.partial", "functools._lru_cache_wrapper",
        "operator.itemgetter"}) {
    add(path, &purity->callable_types);
  }
  purity->attribute_getter = ResolveType("operator.attrgetter");
  purity->script_function = ResolveType("torch._C.ScriptFunction");
  if (PyRef itertools = ResolveName("itertools")) {
    ForEachAttribute(itertools.get(), [](const std::string&, PyObject* value) {
      if (PyType_Check(value)) purity->pure_types.insert(AsType(value));
    });
  }
  if (PyRef dtypes = ResolveName("numpy.dtypes");
      dtypes && PyModule_Check(dtypes.get())) {
    ForEachAttribute(dtypes.get(), [](const std::string&, PyObject* value) {
      if (PyType_Check(value)) purity->immutable_types.insert(AsType(value));
    });
  }
  if (PyRef numbers = ResolveName("numpy.sctypeDict");
      numbers && PyDict_Check(numbers.get())) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(numbers.get(), &position, &key, &value)) {
      if (PyType_Check(value)) purity->pure_types.insert(AsType(value));
    }
  }
  PyRef builtins = ResolveName("builtins");
  ForEachAttribute(builtins.get(), [](const std::string&, PyObject* value) {
    if (PyType_Check(value) &&
        PyType_IsSubtype(AsType(value), AsType(PyExc_BaseException))) {
      purity->pure_types.insert(AsType(value));
    }
  });
}

void AddTorch() {
  const absl::flat_hash_set<std::string> operators = AtenNames();
  const auto classify = [&](absl::string_view prefix, const std::string& name,
                            PyObject* value) {
    if (Contains(kDataReaders, name) || absl::StartsWith(name, "fbgemm_") ||
        absl::StartsWith(name, "_sobol_")) {
      return Add(value, CallKind::kReadsData);
    }
    if (Contains(kTensorMakers, name)) {
      return Add(value, CallKind::kMakesTensor);
    }
    if (name == "storage_offset") return Add(value, CallKind::kReadsOffset);
    if (Contains(kRecurrent, name)) return Add(value, CallKind::kRecurrent);
    if (name == "tensor_split") return Add(value, CallKind::kSplit);
    if (name == "requires_grad_") return Add(value, CallKind::kRequiresGrad);
    if (Contains(kUnsafeTensorOps, name)) return;
    if (Contains(kSparseProducts, name) || operators.contains(name) ||
        operators.contains(absl::StrCat(prefix, name))) {
      Add(value, CallKind::kOperator);
    }
  };
  for (const auto& [path, prefix] :
       std::initializer_list<std::pair<absl::string_view, absl::string_view>>{
           {"torch._C._nn", ""},
           {"torch._C._fft", "fft_"},
           {"torch._C._linalg", "linalg_"},
           {"torch._C._special", "special_"}}) {
    PyRef module = ResolveName(path);
    if (!module || !PyModule_Check(module.get())) continue;
    ForEachAttribute(module.get(), [&](const std::string& name, PyObject* f) {
      std::string word = name;
      if (!prefix.empty() && absl::StartsWith(word, prefix)) {
        word = word.substr(prefix.size());
      }
      classify(prefix, word, f);
    });
  }
  if (PyRef functions = ResolveName("torch._C._VariableFunctionsClass")) {
    ForEachAttribute(functions.get(), [&](const std::string& name,
                                          PyObject* value) {
      PyRef function =
          PyRef::Steal(PyObject_GetAttrString(functions.get(), name.c_str()));
      if (!function) return PyErr_Clear();
      classify("", name, function.get());
    });
  }
  purity->tensor = ResolveName("torch.Tensor").release();
  Add("torch.Tensor._make_subclass", CallKind::kOperator);
  if (PyRef base = ResolveName("torch._C.TensorBase")) {
    ForEachAttribute(base.get(), [&](const std::string& name, PyObject* value) {
      if (Contains(kSafeTensorMethods, name)) {
        return Add(value, CallKind::kOperator);
      }
      if (Py_TYPE(value) == &PyWrapperDescr_Type) {
        if (name != "__setattr__" && name != "__delattr__" &&
            name != "__getattribute__") {
          Add(value, CallKind::kOperator);  // __getitem__, __len__, ….
        }
        return;
      }
      classify("", name, value);
    });
  }
  // pybind11's context managers.
  for (const auto path :
       {"torch._C._InferenceMode.__init__", "torch._C._InferenceMode.__enter__",
        "torch._C._InferenceMode.__exit__"}) {
    PyRef method = ResolveName(path);
    if (!method) continue;
    PyObject* function = PyInstanceMethod_Check(method.get())
                             ? PyInstanceMethod_GET_FUNCTION(method.get())
                             : method.get();
    Add(function, CallKind::kSetsState);
  }
  for (const auto name : kSafeTensorAttributes) {
    purity->tensor_attributes.insert(name);
  }
  for (const auto name : kGradAttributes) purity->grad_attributes.insert(name);
}

}  // namespace

PyRef ResolveName(absl::string_view path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  PyRef object = PyRef::Steal(PyImport_ImportModule(parts[0].c_str()));
  for (size_t i = 1; object && i < parts.size(); ++i) {
    object =
        PyRef::Steal(PyObject_GetAttrString(object.get(), parts[i].c_str()));
  }
  PyErr_Clear();
  return object;
}

bool InitPurity() {
  if (purity != nullptr) return true;
  purity = new Purity;
  AddPython();
  AddTypes();
  AddTorch();
  return true;
}

namespace {

// What identifies a callable in the tables: many objects may stand for one
// function in C.
const void* KeyOf(PyObject* callable) {
  const PyMethodDef* method = MethodDefOf(callable);
  return method != nullptr ? static_cast<const void*>(method) : callable;
}

// Bound: the wrapper is its class's attribute of the same name. Else itself.
PyRef Unbound(PyObject* callable) {
  if (Py_TYPE(callable) != &_PyMethodWrapper_Type) {
    return PyRef::Share(callable);
  }
  PyRef owner = PyRef::Steal(PyObject_GetAttrString(callable, "__objclass__"));
  PyRef name = PyRef::Steal(PyObject_GetAttrString(callable, "__name__"));
  if (!owner || !name) {
    PyErr_Clear();
    return PyRef();
  }
  return PyRef::Share(_PyType_Lookup(AsType(owner.get()), name.get()));
}

// torch.ops.aten.add: each goes by the dispatcher.
bool IsDispatched(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  return module != nullptr && PyUnicode_Check(module) &&
         absl::StartsWith(PyText(module), "torch._ops.");
}

}  // namespace

const CallAnnotation* FindAnnotation(PyObject* callable) {
  const PyRef unbound = Unbound(callable);
  if (!unbound) return nullptr;
  callable = unbound.get();
  const void* key = KeyOf(callable);
  if (!purity->users.empty()) {
    const auto own = purity->users.find(key);
    if (own != purity->users.end()) return &own->second;
  }
  const PyMethodDef* method = MethodDefOf(callable);
  if (method == nullptr) {
    const auto it = purity->objects.find(key);
    return it == purity->objects.end() ? nullptr : &it->second;
  }
  const auto it = purity->functions.find(method);
  if (it != purity->functions.end()) return &it->second;
  static const CallAnnotation dispatched{.kind = CallKind::kOperator};
  return IsDispatched(callable) ? &dispatched : nullptr;
}

CallKind KindOfBuiltin(PyObject* callable) {
  const CallAnnotation* annotation = FindAnnotation(callable);
  return annotation == nullptr ? CallKind::kUnknown : annotation->kind;
}

bool Annotate(PyObject* callable, CallAnnotation annotation) {
  if (PyMethod_Check(callable)) {
    PyErr_SetString(PyExc_TypeError,
                    "a bound method is a new object each time: annotate its "
                    "class's function");
    return false;
  }
  const PyRef unbound = Unbound(callable);
  if (!unbound) {
    PyErr_SetString(PyExc_TypeError, "wants a callable with a name");
    return false;
  }
  const bool is_new =
      purity->users
          .insert_or_assign(KeyOf(unbound.get()), std::move(annotation))
          .second;
  // For the life of the process, as the table; Python functions may be many.
  if (is_new && !PyFunction_Check(callable)) Py_INCREF(unbound.get());
  return true;
}

void DropAnnotation(const void* callable) { purity->users.erase(callable); }

absl::Span<PyObject* const> OwnArguments(PyObject* callable,
                                         absl::Span<PyObject* const> args) {
  const bool is_bound = PyCFunction_Check(callable) && !args.empty() &&
                        PyCFunction_GET_SELF(callable) == args[0];
  return is_bound ? args.subspan(1) : args;
}

bool IsOtherGeneratorMethod(absl::string_view name) {
  return Contains(kOtherGeneratorMethods, name) ||
         (absl::StartsWith(name, "_") && !Contains(kRandomMethods, name));
}

bool IsPureType(PyTypeObject* type) {
  return purity->pure_types.contains(type);
}
bool IsMovingType(PyTypeObject* type) {
  return purity->moving_types.contains(type);
}
bool IsAllocation(PyObject* callable) {
  const PyMethodDef* method = MethodDefOf(callable);
  return method != nullptr && (absl::StartsWith(method->ml_name, "empty") ||
                               absl::StartsWith(method->ml_name, "new_empty"));
}
bool IsTensorConstructor(PyTypeObject* type) {
  return reinterpret_cast<PyObject*>(type) == purity->tensor ||
         absl::string_view(Py_TYPE(type)->tp_name) == "torch.tensortype";
}
bool IsImmutableType(PyTypeObject* type) {
  return purity->immutable_types.contains(type);
}
bool IsPureCallableType(PyTypeObject* type) {
  return purity->callable_types.contains(type);
}

bool HasPureOperators(PyTypeObject* type) {
  if (purity->contextual_types.contains(type)) return false;
  const bool has_operators =
      type->tp_as_number != nullptr ||
      (type->tp_richcompare != nullptr &&
       type->tp_richcompare != PyBaseObject_Type.tp_richcompare);
  return !has_operators || type == Py_TYPE(Py_None) ||
         type == Py_TYPE(Py_NotImplemented) || type == Py_TYPE(Py_Ellipsis) ||
         PyType_IsSubtype(type, &PyType_Type) || IsTensorType(type) ||
         purity->operator_types.contains(type) || IsPureType(type) ||
         IsMovingType(type) || IsImmutableType(type) ||
         IsPureCallableType(type);
}

bool IsContextualType(PyTypeObject* type) {
  return purity->contextual_types.contains(type);
}

bool IsAttributeGetterType(PyTypeObject* type) {
  return type == purity->attribute_getter;
}

bool IsScriptFunctionType(PyTypeObject* type) {
  return purity->script_function != nullptr &&
         PyType_IsSubtype(type, purity->script_function);
}

bool IsPureScriptNode(absl::string_view kind) {
  if (!absl::ConsumePrefix(&kind, "aten::")) {
    return Contains(kPureScriptNodes, kind);
  }
  return !Contains(kImpureScriptOps, kind) &&
         !Contains(kUnsafeTensorOps, kind) && !Contains(kDataReaders, kind) &&
         !Contains(kTensorMakers, kind);
}

bool IsSafeTensorAttribute(const std::string& name, bool requires_grad) {
  return purity->tensor_attributes.contains(name) ||
         (!requires_grad && purity->grad_attributes.contains(name));
}

std::string CallableName(PyObject* callable) {
  if (PyType_Check(callable)) {
    return TypeName(reinterpret_cast<PyTypeObject*>(callable));
  }
  PyRef qualified =
      PyRef::Steal(PyObject_GetAttrString(callable, "__qualname__"));
  if (!qualified) PyErr_Clear();
  if (!qualified || !PyUnicode_Check(qualified.get())) {
    return absl::StrCat("a ", TypeName(Py_TYPE(callable)));
  }
  PyRef module = PyRef::Steal(PyObject_GetAttrString(callable, "__module__"));
  if (!module) PyErr_Clear();
  const std::string name = PyText(qualified.get());
  if (!module || !PyUnicode_Check(module.get())) return name;
  return absl::StrCat(PyText(module.get()), ".", name);
}

FunctionKind KindOfFunction(PyObject* function) {
  const auto* made = reinterpret_cast<const PyFunctionObject*>(function);
  const std::string module = PyText(made->func_module);
  if (module == "torch._functorch.vmap" &&
      PyText(made->func_name) == "lazy_load_decompositions") {
    static PyObject* loaded = Interned("DECOMPOSITIONS_LOADED");
    return PyDict_GetItem(made->func_globals, loaded) == Py_True
               ? FunctionKind::kPlain
               : FunctionKind::kSetsUpAnother;
  }
  if (!absl::StartsWith(module, "torch._dynamo.")) return FunctionKind::kPlain;
  const std::string name =
      absl::StrCat(module, ".", PyText(made->func_qualname));
  if (name == "torch._dynamo.decorators.disable") {
    return FunctionKind::kSetsUpAnother;
  }
  // The second forgets a module that dies.
  return name == "torch._dynamo.mutation_guard.GenerationTracker.tag" ||
                 absl::StartsWith(name,
                                  "torch._dynamo.utils.ExactWeakKeyDictionary.")
             ? FunctionKind::kBookkeeping
             : FunctionKind::kPlain;
}

}  // namespace mica
