#include "python/capture/watch/array_forms.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

bool IsDispatcher(PyObject* callable) {
  return absl::string_view(Py_TYPE(callable)->tp_name) ==
         "numpy._ArrayFunctionDispatcher";
}

bool IsPlainBound(PyObject* bound) {
  return bound == Py_None || PyLong_CheckExact(bound);
}

}  // namespace

PyObject* FunctionOfTorch(const char* name) {
  return ResolveName(absl::StrCat("torch._C._VariableFunctions.", name))
      .release();
}

std::string DtypeName(PyObject* dtype) {
  const PyRef text = PyRef::Steal(PyObject_Str(dtype));
  if (!text) PyErr_Clear();
  std::string name = text ? PyText(text.get()) : "";
  return absl::StartsWith(name, "torch.") ? name.substr(6) : name;
}

bool IsQuiet() {
  static PyObject* ask = ResolveName("numpy.geterr").release();
  const PyRef answer = PyRef::Steal(PyObject_CallNoArgs(ask));
  if (!answer || !PyDict_Check(answer.get())) {
    PyErr_Clear();
    return false;
  }
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(answer.get(), &position, &key, &value)) {
    const std::string word = PyText(value);
    if (word != "warn" && word != "ignore") return false;
  }
  return true;
}

bool IsInOrder(PyObject* tensor) {
  const TensorMeta meta = TensorMeta::Of(tensor);
  int64_t step = 1;
  for (size_t i = meta.sizes.size(); i-- > 0;) {
    if (meta.strides[i] != step && meta.sizes[i] > 1) return false;
    step *= meta.sizes[i];
  }
  return !meta.sizes.empty();
}

std::string NumpyName(PyObject* callable) {
  if (!IsDispatcher(callable)) {
    const std::string name =
        PyCFunction_Check(callable) ? CallableName(callable) : "";
    return absl::StartsWith(name, "numpy.") ? name.substr(6) : "";
  }
  const PyRef name = PyRef::Steal(PyObject_GetAttrString(callable, "__name__"));
  if (name && PyUnicode_Check(name.get())) return PyText(name.get());
  PyErr_Clear();
  return "";
}

PyRef CodeInPython(PyObject* callable) {
  if (!IsDispatcher(callable)) return {};
  PyRef code =
      PyRef::Steal(PyObject_GetAttrString(callable, "_implementation"));
  if (!code) PyErr_Clear();
  return code && PyFunction_Check(code.get()) ? std::move(code) : PyRef();
}

bool GivesView(absl::string_view name) {
  return name == "reshape" || name == "transpose" || name == "squeeze" ||
         name == "swapaxes";
}

bool IsForm(PyObject* argument) {
  if (IsConstant(argument)) return true;
  if (!PyList_CheckExact(argument)) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(argument); ++i) {
    if (!PyLong_CheckExact(PyList_GET_ITEM(argument, i))) return false;
  }
  return true;
}

bool IsPlainIndex(PyObject* key) {
  if (PyTuple_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
      PyObject* part = PyTuple_GET_ITEM(key, i);
      if (PyTuple_Check(part) || !IsPlainIndex(part)) return false;
    }
    return true;
  }
  if (PySlice_Check(key)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(key);
    return IsPlainBound(slice->start) && IsPlainBound(slice->stop) &&
           IsPlainBound(slice->step);
  }
  return key == Py_Ellipsis || IsPlainBound(key);
}

bool HasMemory(PyObject* tensor) {
  if (StorageOf(tensor) == nullptr) return false;
  return DataOf(tensor) != nullptr || NumElements(tensor) == 0;
}

bool MayJoin(PyObject* a, PyObject* b, bool new_dim) {
  TensorMeta one = TensorMeta::Of(a), other = TensorMeta::Of(b);
  if (!new_dim && !one.sizes.empty() && !other.sizes.empty()) {
    one.sizes[0] = other.sizes[0];
    one.strides = other.strides;
  }
  return one == other;
}

bool ShowAlike(PyObject* a, PyObject* b) {
  return DataOf(a) == DataOf(b) && TensorMeta::Of(a) == TensorMeta::Of(b);
}

PyRef WindowLike(PyObject* tensor, PyObject* other) {
  const TensorMeta all = TensorMeta::Of(tensor), seen = TensorMeta::Of(other);
  const int64_t size = ItemBytes(tensor);
  const int64_t from = static_cast<const char*>(DataOf(other)) -
                       static_cast<const char*>(DataOf(tensor));
  if (seen.dtype != all.dtype || !IsInOrder(tensor) || from < 0 ||
      from >= NumElements(tensor) * size || from % size != 0) {
    return {};
  }
  const auto to_tuple = [](absl::Span<const int64_t> numbers) {
    PyRef tuple =
        PyRef::Steal(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
    for (size_t i = 0; tuple && i < numbers.size(); ++i) {
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                       PyLong_FromLongLong(numbers[i]));
    }
    return tuple;
  };
  // As it is before the program replaces any.
  static PyObject* window =
      ResolveName("torch._C.TensorBase.as_strided").release();
  return PyRef::Steal(PyObject_CallFunction(
      window, "OOOL", tensor, to_tuple(seen.sizes).get(),
      to_tuple(seen.strides).get(), static_cast<long long>(from / size)));
}

}  // namespace mica
