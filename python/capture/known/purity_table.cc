#include "python/capture/known/purity_table.h"

#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity_words.h"
#include "python/capture/known/state_getters.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

// A function in C of a kind of its own.
bool IsCythonFunction(PyObject* callable) {
  return absl::EndsWith(Py_TYPE(callable)->tp_name,
                        "cython_function_or_method");
}

// A type of this path, or null.
PyTypeObject* ResolveType(absl::string_view path) {
  PyRef type = ResolveName(path);
  if (!type || !PyType_Check(type.get())) return nullptr;
  return AsType(type.release());  // For the life of the process.
}

void AddMethods(PyTypeObject* type, CallKind kind) {
  purity->operator_types.insert(type);
  ForEachAttribute(reinterpret_cast<PyObject*>(type),
                   [&](const std::string& name, PyObject* value) {
                     if (name == "__new__") return;
                     if (Py_TYPE(value) == &PyStaticMethod_Type) return;
                     if (PyType_Check(value)) return;
                     AddKind(value, kind);
                   });
}

void AddMethods(absl::string_view path, CallKind kind) {
  if (PyTypeObject* type = ResolveType(path)) AddMethods(type, kind);
}

CallKind KindOf(const StateGetter& getter) {
  if (getter.guard == kAskedAgain) return CallKind::kAsksAgain;
  return getter.guard == "function_modes" ? CallKind::kReadsModes
                                          : CallKind::kReadsState;
}

void AddLists() {
  for (const auto path : kPureFunctions) AddKind(path, CallKind::kPure);
  for (const auto path : kTypeFunctions) AddKind(path, CallKind::kTypes);
  for (const auto path : kRegistryFunctions) AddKind(path, CallKind::kRegistry);
  for (const auto path : kStateSetters) AddKind(path, CallKind::kSetsState);
  for (const StateGetter& getter : kStateGetters) {
    const PyRef function = ResolveName(getter.name);
    // A torch without CUDA has types in place of some.
    if (!function || PyType_Check(function.get())) continue;
    AddKind(function.get(), KindOf(getter));
  }
  for (const StateGetter& getter : kStateGettersOfDevices) {
    AddKind(getter.name, CallKind::kAsksAgain);
  }
  for (const char* path : {"torch.device.__enter__", "torch.device.__exit__"}) {
    AddKind(path, CallKind::kDeviceBlock);
  }
}

void AddModules() {
  for (const auto name : kPureModules) {
    PyRef module = ResolveName(name);
    if (!module) continue;
    ForEachAttribute(module.get(), [&](const std::string& word, PyObject* f) {
      if (PyCFunction_Check(f) &&
          !HasWord(kImpureOfPureModules, absl::StrCat(name, ".", word))) {
        AddKind(f, CallKind::kPure);
      }
    });
  }
}

void AddMethodsOfTypes() {
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
                       if (!HasWord(kUnsafeArrayMethods, name)) {
                         AddKind(f, CallKind::kPure);
                       }
                     });
  }
}

// Of one item, one attribute, one variable; and what makes text.
void AddPlaces() {
  // Whole dicts are rarely read.
  for (const auto path :
       {"builtins.dict.get", "builtins.dict.__getitem__",
        "builtins.dict.__contains__", "builtins.dict.__setitem__",
        "builtins.dict.__delitem__", "builtins.dict.setdefault",
        "builtins.dict.pop", "types.MappingProxyType.get",
        "collections.OrderedDict.__setitem__", "collections.OrderedDict.pop"}) {
    AddKind(path, CallKind::kUseItem);
  }
  for (const auto path : {"builtins.getattr", "builtins.hasattr",
                          "types.ModuleType.__getattribute__",
                          "builtins.object.__getattribute__"}) {
    AddKind(path, CallKind::kGetAttr);
  }
  for (const auto path :
       {"builtins.setattr", "builtins.delattr", "builtins.object.__setattr__",
        "builtins.object.__delattr__"}) {
    AddKind(path, CallKind::kSetAttr);
  }
  for (const auto path :
       {"builtins.object.__str__", "builtins.repr", "builtins.format",
        "builtins.str.format", "builtins.str.format_map",
        "builtins.object.__format__"}) {
    AddKind(path, CallKind::kText);
  }
  for (const auto path :
       {"contextvars.ContextVar.get", "contextvars.ContextVar.set",
        "contextvars.ContextVar.reset"}) {
    AddKind(path, CallKind::kContext);
  }
}

// What is drawn, asked for and told.
void AddOutside() {
  for (const auto path : {"_random.Random", "numpy.random.RandomState",
                          "numpy.random.Generator"}) {
    AddMethods(path, CallKind::kDraw);
  }
  for (const auto name : kRandomMethods) {
    AddKind(absl::StrCat("random.Random.", name), CallKind::kDraw);
  }
  for (const auto path : kClocks) AddKind(path, CallKind::kClock);
  for (const char* name :
       {"get_state", "set_state", "manual_seed", "initial_seed"}) {
    AddKind(absl::StrCat("torch._C.Generator.", name), CallKind::kGenerator);
  }
  // It seeds generators of other devices, too, if there may be some.
  if (!MayHaveDevices()) {
    AddKind("torch.random.manual_seed", CallKind::kGenerator);
  }
  AddKind("torch.get_num_threads", CallKind::kAsk);
  for (const auto path : kSeeded) AddKind(path, CallKind::kSeeds);
  AddKind("builtins.print", CallKind::kPrint);
  for (const char* name :
       {"debug", "info", "warning", "error", "critical", "log"}) {
    AddKind(absl::StrCat("logging.Logger.", name), CallKind::kLog);
  }
  AddKind("_warnings.warn", CallKind::kWarn);
  AddKind("_warnings._filters_mutated", CallKind::kNewFilters);
}

// Kinds of few functions.
void AddSingle() {
  for (const char* type : {"_thread.LockType", "_thread.RLock"}) {
    for (const char* name : {"acquire", "release", "__enter__", "__exit__"}) {
      AddKind(absl::StrCat(type, ".", name), CallKind::kLock);
    }
  }
  AddKind("builtins.vars", CallKind::kVars);
  AddKind("builtins.id", CallKind::kIdentity);
  AddKind("builtins.object.__reduce_ex__", CallKind::kReduce);
  for (const char* name :
       {"cos", "exp", "log", "log10", "log2", "sin", "sqrt", "tanh"}) {
    AddKind(absl::StrCat("math.", name), CallKind::kNumberFunction);
  }
  AddKind("torch.autograd.Variable._execution_engine.run_backward",
          CallKind::kBackward);
  if (PyRef make = ResolveName("builtins.object.__new__")) {
    purity->tp_new = MethodDefOf(make.get());
    purity->functions[purity->tp_new] = {.kind = CallKind::kNew};
  }
}

}  // namespace

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

void AddKind(PyObject* callable, CallKind kind) {
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

void AddKind(absl::string_view path, CallKind kind) {
  if (PyRef object = ResolveName(path)) AddKind(object.get(), kind);
}

void AddPython() {
  AddLists();
  AddModules();
  AddMethodsOfTypes();
  for (const auto path : kMovingFunctions) {
    AddKind(path, CallKind::kMoves);
  }
  AddPlaces();
  AddOutside();
  AddSingle();
}

// Enums that pybind11 makes: each member is a number in C that stays.
void AddEnums() {
  static PyObject* entries = PyUnicode_InternFromString("__entries");
  for (const char* path : {"torch", "torch._C", "torch._C._autograd",
                           "torch._C._distributed_c10d"}) {
    const PyRef module = ResolveName(path);
    if (!module || !PyModule_Check(module.get())) continue;
    ForEachAttribute(module.get(), [](const std::string&, PyObject* value) {
      if (!PyType_Check(value) ||
          !absl::EndsWith(Py_TYPE(value)->tp_name, "pybind11_type") ||
          _PyType_Lookup(AsType(value), entries) == nullptr) {
        return;
      }
      purity->immutable_types.insert(AsType(value));
    });
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
  AddEnums();
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

}  // namespace mica
