#include "python/capture/purity.h"

#include <initializer_list>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "python/capture/constants.h"
#include "python/capture/interpreter.h"
#include "python/capture/recorder.h"

namespace mica {
namespace {

using Words = std::initializer_list<absl::string_view>;

// ---- What is allowed. "module.name"; all else ends a capture. ----

// Functions of modules.
constexpr absl::string_view kPureFunctions[] = {
    "builtins.abs", "builtins.all", "builtins.any", "builtins.ascii",
    "builtins.bin", "builtins.chr", "builtins.divmod", "builtins.hash",
    "builtins.hex", "builtins.iter", "builtins.len", "builtins.max",
    "builtins.min", "builtins.next", "builtins.oct", "builtins.ord",
    "builtins.pow", "builtins.round", "builtins.sorted", "builtins.sum",
    "builtins.__build_class__", "_functools.reduce", "_functools.cmp_to_key",
    "_collections._count_elements", "sys.intern", "posix.fspath",
    "_bisect.bisect_left", "_bisect.bisect_right", "_heapq.heappush",
    "_heapq.heappop", "_heapq.heapify", "_codecs.encode", "_codecs.decode",
    "_codecs.utf_8_encode", "_codecs.utf_8_decode", "_string.formatter_parser",
    "_string.formatter_field_name_split", "torch._C._FunctionBase.apply",
    "torch._C._get_operation_overload", "torch._C._infer_size",
    "torch._C._group_tensors_by_device_and_dtype", "torch._C._fx_map_aggregate",
    "torch._C._fx_map_arg", "torch._C._nn._parse_to",
    // Arrays that they read are guarded by their contents.
    "numpy.array", "numpy.asarray", "numpy.asanyarray",
    "numpy.ascontiguousarray", "numpy.zeros", "numpy.empty", "numpy.arange",
    "numpy.copyto", "numpy.concatenate", "numpy.dot", "numpy.where",
    "numpy.result_type", "numpy.can_cast", "numpy.promote_types",
    "numpy.min_scalar_type", "numpy.lib.array_utils.normalize_axis_index",
    "numpy._core.multiarray.normalize_axis_index",
    "numpy._core.multiarray.correlate"};
// All functions of these modules.
constexpr absl::string_view kPureModules[] = {"math", "cmath", "_operator",
                                              "_stat", "unicodedata"};
constexpr absl::string_view kImpureOfPureModules[] = {
    "_operator.attrgetter", "_operator.methodcaller", "_operator.length_hint"};
// They look at types and at torch's state only.
constexpr absl::string_view kShallowFunctions[] = {
    "builtins.callable",
    "builtins.isinstance",
    "builtins.issubclass",
    "builtins.locals",
    "sys.exc_info",
    "sys.getrecursionlimit",
    "sys.is_finalizing",
    "_abc._abc_instancecheck",
    "_abc._abc_subclasscheck",
    "_abc.get_cache_token",
    "_abc._abc_init",
    "_abc._abc_register",
    "itertools.tee",
    "_thread.get_ident",
    "contextvars.copy_context",
    "types.FunctionType.__get__",
    "torch._C.DisableTorchFunctionSubclass.__enter__",
    "torch._C.DisableTorchFunctionSubclass.__exit__",
    "torch._C.DisableTorchFunction.__enter__",
    "torch._C.DisableTorchFunction.__exit__",
    "torch._C._stash_obj_in_tls",
    "torch._C._dynamo.eval_frame.set_eval_frame",
    "torch._C._dynamo.eval_frame.set_skip_guard_eval_unsafe",
    "torch._C._dynamo.eval_frame._set_eval_frame",
    "torch._C._dynamo.eval_frame.get_eval_frame_callback",
    "torch._C._remove_obj_from_tls",
    "torch._C._get_tracing_state",
    "torch._C._is_tracing",
    "torch._C.is_grad_enabled",
    "torch._C.is_inference_mode_enabled",
    "torch._C._set_grad_enabled",
    "torch._C.is_autocast_enabled",
    "torch._C.is_autocast_cpu_enabled",
    "torch._C.is_autocast_cache_enabled",
    "torch._C.set_autocast_enabled",
    "torch._C.set_autocast_cpu_enabled",
    "torch._C.set_autocast_cpu_dtype",
    "torch._C.set_autocast_dtype",
    "torch._C.set_autocast_cache_enabled",
    "torch._C.get_autocast_dtype",
    "torch._C.get_autocast_cpu_dtype",
    "torch._C.get_autocast_gpu_dtype",
    "torch._C.autocast_increment_nesting",
    "torch._C.autocast_decrement_nesting",
    "torch._C.clear_autocast_cache",
    "torch._C._is_any_autocast_enabled",
    "torch._C._is_autocast_available",
    "torch._C.get_default_dtype",
    "torch._C._get_default_device",
    "torch._C._has_torch_function",
    "torch._C._has_torch_function_unary",
    "torch._C._has_torch_function_variadic",
    "torch._C._is_torch_function_enabled",
    "torch._C._is_torch_function_mode_enabled",
    "torch._C._is_torch_function_all_disabled",
    "torch._C._len_torch_function_stack",
    "torch._C._len_torch_dispatch_stack",
    "torch._C._get_deterministic_algorithms",
    "torch._C._get_float32_matmul_precision",
    "torch._C._get_privateuse1_backend_name",
    "torch._C._log_api_usage_once",
    "torch._C._is_view_replay_enabled",
    "torch._C._are_functorch_transforms_active",
    "torch._C._get_autograd_fallback_mode",
    "torch._C._get_warnAlways",
    "torch._C.is_anomaly_enabled",
    "torch._C._is_fwd_grad_enabled",
    "torch._C._get_accelerator",
    "torch._C._accelerator_getAccelerator",
    "torch._C._get_dispatch_mode",
    "torch._C._dispatch_isTensorSubclassLike",
    "torch._C._functorch.peek_interpreter_stack",
    "torch._C._functorch.maybe_current_level",
    "torch._C._functorch.unwrap_if_dead",

    "torch._C._get_cudnn_enabled",
    "torch._C._get_mkldnn_enabled",
    "torch._C._get_flash_sdp_enabled",
    "torch._C._get_math_sdp_enabled",
    "torch._C._get_mem_efficient_sdp_enabled",
    "torch._C._has_distributed"};
// They copy Python values into new tensors by plain stores.
constexpr absl::string_view kTensorMakers[] = {
    "tensor",     "new",           "as_tensor", "asarray",
    "new_tensor", "scalar_tensor", "from_numpy"};
constexpr absl::string_view kRecurrent[] = {"lstm", "gru", "rnn_tanh",
                                            "rnn_relu"};
constexpr absl::string_view kSparseProducts[] = {"dsmm", "hsmm", "saddmm",
                                                 "spmm"};
// Names in torch._C._VariableFunctions, _nn, … and torch._C.TensorBase that
// aren't operators, or are more than one.
constexpr absl::string_view kSafeTensorMethods[] = {"__add__",
                                                    "__bool__",
                                                    "__complex__",
                                                    "__div__",
                                                    "__eq__",
                                                    "__float__",
                                                    "__floordiv__",
                                                    "__ge__",
                                                    "__gt__",
                                                    "__iadd__",
                                                    "__idiv__",
                                                    "__ifloordiv__",
                                                    "__imod__",
                                                    "__imul__",
                                                    "__index__",
                                                    "__int__",
                                                    "__invert__",
                                                    "__isub__",
                                                    "__le__",
                                                    "__long__",
                                                    "__lt__",
                                                    "__matmul__",
                                                    "__mod__",
                                                    "__mul__",
                                                    "__ne__",
                                                    "__nonzero__",
                                                    "__radd__",
                                                    "__rand__",
                                                    "__rmul__",
                                                    "__ror__",
                                                    "__rxor__",
                                                    "__sub__",
                                                    "__truediv__",
                                                    "bfloat16",
                                                    "bool",
                                                    "byte",
                                                    "cdouble",
                                                    "cfloat",
                                                    "char",
                                                    "cpu",
                                                    "double",
                                                    "element_size",
                                                    "float",
                                                    "half",
                                                    "int",
                                                    "long",
                                                    "ndimension",
                                                    "nelement",

                                                    "short",
                                                    "type",
                                                    "dim",
                                                    "size",
                                                    "stride",
                                                    "numel",
                                                    "storage_offset",
                                                    "is_contiguous",
                                                    "get_device",
                                                    "is_floating_point",
                                                    "is_complex",
                                                    "is_signed",
                                                    "is_inference",
                                                    "is_conj",
                                                    "is_neg",
                                                    "contiguous",
                                                    "has_names",
                                                    "item",
                                                    "copy_",
                                                    "to"};
constexpr absl::string_view kUnsafeTensorOps[] = {
    "requires_grad_", "retain_grad",
    "_backward",      "set_",
    "resize_",        "resize_as_",
    "record_stream",  "data_ptr",
    "numpy",          "tolist",
    "from_file",      "is_pinned",
    "pin_memory",     "_version",
    "set_data",       "data",
    "frombuffer",     "_from_blob",
    "is_leaf",        "output_nr",
    "is_set_to",      "_use_cudnn_rnn_flatten_weight"};
// They write files, take references or leave memory behind.
constexpr absl::string_view kUnsafeArrayMethods[] = {"__new__",
                                                     "tofile",
                                                     "dump",
                                                     "dumps",
                                                     "setflags",
                                                     "__array_interface__",
                                                     "__array_struct__",
                                                     "__setstate__",
                                                     "resize",
                                                     "__dlpack__",
                                                     "byteswap",
                                                     "__array_finalize__"};
constexpr absl::string_view kDataReaders[] = {
    // Composite operators in C++ that look at tensors' bytes by themselves.
    "ctc_loss",
    "_pad_packed_sequence",
    "_reshape_from_tensor",
    "_rowwise_prune",
    "choose_qparams_optimized",
    "_saturate_weight_to_fp16",
    "_use_cudnn_rnn_flatten_weight",

    "tolist",
    "numpy",
    "data_ptr",
    "const_data_ptr",
    "untyped_storage",
    "apply_",
    "map_",
    "map2_",
    "__array__",
    "_is_view"};

// Types whose objects are made from the arguments alone.
constexpr absl::string_view kPureTypes[] = {
    "builtins.object",
    "builtins.bool",
    "builtins.int",
    "builtins.float",
    "builtins.complex",
    "builtins.str",
    "builtins.bytes",
    "builtins.list",
    "builtins.tuple",
    "builtins.dict",
    "builtins.set",
    "builtins.frozenset",
    "builtins.range",
    "builtins.slice",
    "builtins.zip",
    "builtins.map",
    "builtins.filter",
    "builtins.enumerate",
    "builtins.reversed",
    "builtins.super",
    "builtins.property",
    "builtins.staticmethod",
    "builtins.classmethod",
    "builtins.bytearray",
    "builtins.type",
    "collections.OrderedDict",
    "collections.defaultdict",
    "collections.deque",
    "functools.partial",
    "types.MappingProxyType",
    "types.SimpleNamespace",
    "types.MethodType",
    "types.GenericAlias",
    "operator.itemgetter",
    "torch.Size",
    "torch.device",
    "torch.finfo",
    "torch._C._LegacyVariableBase",
    "torch.iinfo",
    "torch._C._InferenceMode",
    "torch._C.DisableTorchFunctionSubclass"};
// All types of itertools are added.

// C types whose objects never change, or whose changes nobody sees.
constexpr absl::string_view kImmutableTypes[] = {
    "torch._C.DisableTorchFunctionSubclass",
    "torch._C.DisableTorchFunction",
    "torch.dtype",
    "torch.device",
    "torch.layout",
    "torch.memory_format",
    "torch.finfo",
    "torch.iinfo",
    "torch.Size",
    "types.BuiltinFunctionType",
    "types.GenericAlias",
    "types.MethodType",
    "types.WrapperDescriptorType",
    "types.MethodDescriptorType",
    "types.ClassMethodDescriptorType",
    "types.MemberDescriptorType",
    "types.GetSetDescriptorType",
    "types.UnionType",
    "re.Pattern",
    "re.Match",
    "numpy._core._multiarray_umath._array_converter",
    "builtins.range",
    "builtins.slice",
    "builtins.property",
    "builtins.staticmethod",
    "builtins.classmethod",
    "builtins.frozenset",
    "builtins.bytes",
    "builtins.int",
    "builtins.float",
    "builtins.complex",
    "builtins.str",
    "builtins.tuple",
    "operator.itemgetter",
    "datetime.datetime",
    "datetime.date",
    "datetime.timedelta",
    "decimal.Decimal",
    "torch._C._dispatch_keyset_full",
    "torch._C.DispatchKeySet",
    "torch._C.DispatchKey"};

constexpr absl::string_view kSafeTensorAttributes[] = {
    "H",
    "T",
    "data",
    "device",
    "dtype",
    "imag",
    "is_cpu",
    "is_cuda",
    "is_ipu",
    "is_maia",
    "is_meta",
    "is_mkldnn",
    "is_mps",
    "is_mtia",
    "is_nested",
    "is_quantized",
    "is_sparse",
    "is_sparse_csr",
    "is_vulkan",
    "is_xla",
    "is_xpu",
    "itemsize",
    "layout",
    "mH",
    "mT",
    "nbytes",
    "ndim",
    "real",
    "requires_grad",
    "shape",
    "_has_symbolic_sizes_strides"};
// Known from requires_grad when that is false.
constexpr absl::string_view kGradAttributes[] = {"grad_fn", "_grad_fn",
                                                 "is_leaf", "retains_grad"};

// ---- The table. ----

struct Purity {
  absl::flat_hash_map<const PyMethodDef*, CallKind> functions;
  // pybind11's functions share no PyMethodDef, nor do slot wrappers.
  absl::flat_hash_map<PyObject*, CallKind> objects;
  absl::flat_hash_set<PyTypeObject*> pure_types;
  absl::flat_hash_set<PyTypeObject*> immutable_types;
  absl::flat_hash_set<PyTypeObject*> callable_types;
  absl::flat_hash_set<absl::string_view> tensor_attributes;
  absl::flat_hash_set<absl::string_view> grad_attributes;
  const PyMethodDef* tp_new = nullptr;
  PyObject* tensor = nullptr;  // torch.Tensor.
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

// "a.b.c" imported as far as it is a module, then by attributes. Null, with no
// error set, for what this interpreter or torch doesn't have.
PyRef Resolve(absl::string_view path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  PyRef object = PyRef::Steal(PyImport_ImportModule(parts[0].c_str()));
  for (size_t i = 1; object && i < parts.size(); ++i) {
    object =
        PyRef::Steal(PyObject_GetAttrString(object.get(), parts[i].c_str()));
  }
  PyErr_Clear();
  return object;
}

void Add(PyObject* callable, CallKind kind) {
  if (const PyMethodDef* method = MethodDefOf(callable)) {
    purity->functions[method] = kind;
  } else if (Py_TYPE(callable) == &PyWrapperDescr_Type) {
    Py_INCREF(callable);  // For the life of the process, as the table.
    purity->objects[callable] = kind;
  }
}

void Add(absl::string_view path, CallKind kind) {
  if (PyRef object = Resolve(path)) Add(object.get(), kind);
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
  ForEachAttribute(reinterpret_cast<PyObject*>(type),
                   [&](const std::string& name, PyObject* value) {
                     if (name == "__new__") return;
                     if (Py_TYPE(value) == &PyStaticMethod_Type) return;
                     Add(value, kind);
                   });
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
  for (const auto path : kShallowFunctions) Add(path, CallKind::kShallow);
  for (const auto name : kPureModules) {
    PyRef module = Resolve(name);
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
        "re.Match", "torch.Size", "torch.dtype", "numpy.generic", "numpy.dtype",
        "numpy.ufunc", "numpy._core._multiarray_umath._array_converter"}) {
    if (PyRef type = Resolve(path); type && PyType_Check(type.get())) {
      AddMethods(reinterpret_cast<PyTypeObject*>(type.get()), CallKind::kPure);
    }
  }
  if (PyRef array = Resolve("numpy.ndarray");
      array && PyType_Check(array.get())) {
    ForEachAttribute(array.get(), [](const std::string& name, PyObject* f) {
      if (!Contains(kUnsafeArrayMethods, name)) Add(f, CallKind::kPure);
    });
  }
  // Of one item; whole dicts are rarely read.
  for (const auto path :
       {"builtins.dict.get", "builtins.dict.__getitem__",
        "builtins.dict.__contains__", "builtins.dict.__setitem__",
        "builtins.dict.__delitem__", "builtins.dict.setdefault",
        "builtins.dict.pop", "collections.OrderedDict.__setitem__",
        "collections.OrderedDict.pop"}) {
    Add(path, CallKind::kUseItem);
  }
  for (const auto path : {"builtins.getattr", "builtins.hasattr",
                          "builtins.object.__getattribute__"}) {
    Add(path, CallKind::kGetAttr);
  }
  for (const auto path :
       {"builtins.setattr", "builtins.delattr", "builtins.object.__setattr__",
        "builtins.object.__delattr__"}) {
    Add(path, CallKind::kSetAttr);
  }
  for (const auto path :
       {"builtins.repr", "builtins.format", "builtins.str.format",
        "builtins.str.format_map", "builtins.object.__format__"}) {
    Add(path, CallKind::kText);
  }
  for (const auto path :
       {"contextvars.ContextVar.get", "contextvars.ContextVar.set",
        "contextvars.ContextVar.reset"}) {
    Add(path, CallKind::kContext);
  }
  Add("builtins.id", CallKind::kIdentity);
  Add("math.sqrt", CallKind::kSquareRoot);
  Add("builtins.print", CallKind::kPrint);
  Add("_warnings.warn", CallKind::kWarn);
  Add("_warnings._filters_mutated", CallKind::kNewFilters);
  Add("torch.autograd.Variable._execution_engine.run_backward",
      CallKind::kBackward);
  for (const auto path :
       {"builtins.object.__init__", "builtins.object.__init_subclass__",
        "builtins.object.__subclasshook__", "builtins.object.__eq__",
        "builtins.object.__ne__", "builtins.type.__instancecheck__",
        "builtins.type.__subclasscheck__", "builtins.type.mro",
        "builtins.type.__subclasses__"}) {
    Add(path, CallKind::kShallow);
  }
  if (PyRef make = Resolve("builtins.object.__new__")) {
    purity->tp_new = MethodDefOf(make.get());
    purity->functions[purity->tp_new] = CallKind::kNew;
  }
}

void AddTypes() {
  const auto add = [](absl::string_view path,
                      absl::flat_hash_set<PyTypeObject*>* to) {
    if (PyRef type = Resolve(path); type && PyType_Check(type.get())) {
      to->insert(reinterpret_cast<PyTypeObject*>(type.release()));
    }
  };
  for (const auto path : kPureTypes) add(path, &purity->pure_types);
  for (const auto path : kImmutableTypes) add(path, &purity->immutable_types);
  for (const auto path :
       {"numpy.ufunc", "numpy._core._multiarray_umath._ArrayFunctionDispatcher",
        "functools.partial", "functools._lru_cache_wrapper",
        "operator.itemgetter"}) {
    add(path, &purity->callable_types);
  }
  if (PyRef itertools = Resolve("itertools")) {
    ForEachAttribute(itertools.get(), [](const std::string&, PyObject* value) {
      if (PyType_Check(value)) {
        purity->pure_types.insert(reinterpret_cast<PyTypeObject*>(value));
      }
    });
  }
  if (PyRef dtypes = Resolve("numpy.dtypes");
      dtypes && PyModule_Check(dtypes.get())) {
    ForEachAttribute(dtypes.get(), [](const std::string&, PyObject* value) {
      if (PyType_Check(value)) purity->immutable_types.insert(AsType(value));
    });
  }
  if (PyRef numbers = Resolve("numpy.sctypeDict");
      numbers && PyDict_Check(numbers.get())) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(numbers.get(), &position, &key, &value)) {
      if (PyType_Check(value)) purity->pure_types.insert(AsType(value));
    }
  }
  for (const auto path :
       {"numpy.dtype", "numpy._core._multiarray_umath._array_converter"}) {
    add(path, &purity->pure_types);
  }
  PyRef builtins = Resolve("builtins");
  ForEachAttribute(builtins.get(), [](const std::string&, PyObject* value) {
    if (PyType_Check(value) &&
        PyType_IsSubtype(
            reinterpret_cast<PyTypeObject*>(value),
            reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) {
      purity->pure_types.insert(reinterpret_cast<PyTypeObject*>(value));
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
    PyRef module = Resolve(path);
    if (!module || !PyModule_Check(module.get())) continue;
    ForEachAttribute(module.get(), [&](const std::string& name, PyObject* f) {
      std::string word = name;
      if (!prefix.empty() && absl::StartsWith(word, prefix)) {
        word = word.substr(prefix.size());
      }
      classify(prefix, word, f);
    });
  }
  if (PyRef functions = Resolve("torch._C._VariableFunctionsClass")) {
    ForEachAttribute(functions.get(), [&](const std::string& name,
                                          PyObject* value) {
      PyRef function =
          PyRef::Steal(PyObject_GetAttrString(functions.get(), name.c_str()));
      if (!function) return PyErr_Clear();
      classify("", name, function.get());
    });
  }
  purity->tensor = Resolve("torch.Tensor").release();
  if (PyRef base = Resolve("torch._C.TensorBase")) {
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
    PyRef method = Resolve(path);
    if (!method) continue;
    PyObject* function = PyInstanceMethod_Check(method.get())
                             ? PyInstanceMethod_GET_FUNCTION(method.get())
                             : method.get();
    Add(function, CallKind::kShallow);
  }
  for (const auto name : kSafeTensorAttributes) {
    purity->tensor_attributes.insert(name);
  }
  for (const auto name : kGradAttributes) purity->grad_attributes.insert(name);
}

}  // namespace

bool InitPurity() {
  if (purity != nullptr) return true;
  purity = new Purity;
  AddPython();
  AddTypes();
  AddTorch();
  return true;
}

CallKind KindOfBuiltin(PyObject* callable) {
  PyRef descriptor;
  if (Py_TYPE(callable) == &_PyMethodWrapper_Type) {
    // Bound: the wrapper is its class's attribute of the same name.
    PyRef owner =
        PyRef::Steal(PyObject_GetAttrString(callable, "__objclass__"));
    PyRef name = PyRef::Steal(PyObject_GetAttrString(callable, "__name__"));
    if (!owner || !name) {
      PyErr_Clear();
      return CallKind::kUnknown;
    }
    descriptor = PyRef::Share(_PyType_Lookup(
        reinterpret_cast<PyTypeObject*>(owner.get()), name.get()));
    if (!descriptor) return CallKind::kUnknown;
    callable = descriptor.get();
  }
  if (const PyMethodDef* method = MethodDefOf(callable)) {
    const auto it = purity->functions.find(method);
    if (it != purity->functions.end()) return it->second;
    // torch.ops.aten.add: each goes by the dispatcher.
    if (PyCFunction_Check(callable)) {
      PyObject* module =
          reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
      if (module != nullptr && PyUnicode_Check(module) &&
          absl::StartsWith(PyText(module), "torch._ops.")) {
        return CallKind::kOperator;
      }
    }
    return CallKind::kUnknown;
  }
  const auto it = purity->objects.find(callable);
  return it == purity->objects.end() ? CallKind::kUnknown : it->second;
}

bool IsPureType(PyTypeObject* type) {
  return purity->pure_types.contains(type);
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

bool IsBookkeeping(PyObject* function) {
  const auto* made = reinterpret_cast<const PyFunctionObject*>(function);
  const std::string module = PyText(made->func_module);
  if (!absl::StartsWith(module, "torch._dynamo.")) return false;
  const std::string name = PyText(made->func_qualname);
  // The second forgets a module that dies.
  return (module == "torch._dynamo.mutation_guard" &&
          name == "GenerationTracker.tag") ||
         (module == "torch._dynamo.utils" &&
          absl::StartsWith(name, "ExactWeakKeyDictionary."));
}

}  // namespace mica
