// What torch has.

#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity_table.h"
#include "python/capture/known/purity_words.h"
#include "python/torch_side/recorder/recorder.h"

namespace mica {
namespace {

using Operators = absl::flat_hash_set<std::string>;

// Adds a function or method of torch's, by its name.
void Classify(const Operators& operators, absl::string_view prefix,
              const std::string& name, PyObject* value) {
  if (HasWord(kDataReaders, name) || absl::StartsWith(name, "fbgemm_") ||
      absl::StartsWith(name, "_sobol_")) {
    return AddKind(value, CallKind::kReadsData);
  }
  if (HasWord(kTensorMakers, name)) {
    return AddKind(value, CallKind::kMakesTensor);
  }
  if (name == "storage_offset") return AddKind(value, CallKind::kReadsOffset);
  if (HasWord(kRecurrent, name)) return AddKind(value, CallKind::kRecurrent);
  if (name == "tensor_split") return AddKind(value, CallKind::kSplit);
  if (name == "requires_grad_") return AddKind(value, CallKind::kRequiresGrad);
  if (name == "retain_grad") return AddKind(value, CallKind::kRetainsGrad);
  if (name == "detach_") return AddKind(value, CallKind::kDetaches);
  if (HasWord(kUnsafeTensorOps, name)) return;
  if (HasWord(kSparseProducts, name) || operators.contains(name) ||
      operators.contains(absl::StrCat(prefix, name))) {
    AddKind(value, CallKind::kOperator);
  }
}

void AddFunctions(const Operators& operators) {
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
      Classify(operators, prefix, word, f);
    });
  }
  if (PyRef functions = ResolveName("torch._C._VariableFunctionsClass")) {
    ForEachAttribute(functions.get(), [&](const std::string& name,
                                          PyObject* value) {
      PyRef function =
          PyRef::Steal(PyObject_GetAttrString(functions.get(), name.c_str()));
      if (!function) return PyErr_Clear();
      Classify(operators, "", name, function.get());
    });
  }
}

void AddTensorMethods(const Operators& operators) {
  purity->tensor = ResolveName("torch.Tensor").release();
  purity->class_counter =
      ResolveName("torch.autograd.function.AUTOGRAD_FUNCTION_COUNTER")
          .release();
  AddKind("torch.Tensor._make_subclass", CallKind::kOperator);
  if (PyRef base = ResolveName("torch._C.TensorBase")) {
    ForEachAttribute(base.get(), [&](const std::string& name, PyObject* value) {
      if (HasWord(kSafeTensorMethods, name)) {
        return AddKind(value, CallKind::kOperator);
      }
      if (Py_TYPE(value) == &PyWrapperDescr_Type) {
        if (name != "__setattr__" && name != "__delattr__" &&
            name != "__getattribute__") {
          AddKind(value, CallKind::kOperator);  // __getitem__, __len__, ….
        }
        return;
      }
      Classify(operators, "", name, value);
    });
  }
}

// A method of a class of pybind11's.
void AddMethod(const char* path, CallKind kind) {
  PyRef method = ResolveName(path);
  if (!method) return;
  PyObject* function = PyInstanceMethod_Check(method.get())
                           ? PyInstanceMethod_GET_FUNCTION(method.get())
                           : method.get();
  AddKind(function, kind);
}

// What tells of an operator, and never changes.
void AddSchemas() {
  static PyObject* get = PyUnicode_InternFromString("fget");
  for (const char* path : {"torch._C.FunctionSchema", "torch._C.Argument",
                           "torch._C._AliasInfo"}) {
    const PyRef type = ResolveName(path);
    if (!type || !PyType_Check(type.get())) continue;
    purity->immutable_types.insert(AsType(type.get()));
    ForEachAttribute(type.get(), [](const std::string& name, PyObject* value) {
      if (PyInstanceMethod_Check(value)) {
        AddKind(PyInstanceMethod_GET_FUNCTION(value), CallKind::kPure);
      } else if (Py_TYPE(value) == &PyProperty_Type) {
        const PyRef getter = PyRef::Steal(PyObject_GetAttr(value, get));
        if (getter) AddKind(getter.get(), CallKind::kPure);
      }
    });
  }
}

void AddMethodsOfPybind() {
  for (const char* path :
       {"torch._C._InferenceMode.__init__", "torch._C._InferenceMode.__enter__",
        "torch._C._InferenceMode.__exit__",
        "torch._C._AutoDispatchBelowAutograd.__init__",
        "torch._C._AutoDispatchBelowAutograd.__enter__",
        "torch._C._AutoDispatchBelowAutograd.__exit__"}) {
    AddMethod(path, CallKind::kSetsState);
  }
  AddMethod("torch._C._DispatchOperatorHandle.redispatch_boxed",
            CallKind::kOperator);
}

}  // namespace

void AddTorch() {
  const Operators operators = AtenNames();
  AddFunctions(operators);
  AddTensorMethods(operators);
  AddSchemas();
  AddMethodsOfPybind();
  for (const auto name : kSafeTensorAttributes) {
    purity->tensor_attributes.insert(name);
  }
  for (const auto name : kGradAttributes) purity->grad_attributes.insert(name);
}

}  // namespace mica
