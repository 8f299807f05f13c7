// Functions and methods of numpy's that compute with arrays.

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/array_arithmetic.h"
#include "python/capture/watch/array_forms.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

bool ArrayArithmetic::Call(PyObject* callable, absl::Span<PyObject* const> args,
                           PyObject* keyword_names) {
  if (refusal() || callable == nullptr || !values_.has_arrays() ||
      is_in_later_pass()) {
    return false;
  }
  if (absl::string_view(Py_TYPE(callable)->tp_name) == "numpy.ufunc") {
    return keyword_names == nullptr && CallUfunc(callable, args);
  }
  std::vector<PyObject*> all(args.begin(), args.end());
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    if (self == nullptr || !IsArray(self)) return false;
    all.insert(all.begin(), self);
    return CallMethod(
        reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name, all,
        keyword_names);
  }
  if (Py_TYPE(callable) == &PyMethodDescr_Type) {
    return CallMethod(
        reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name,
        all, keyword_names);
  }
  const std::string name = NumpyName(callable);
  if (name.empty()) return false;
  if (name == "where") return keyword_names == nullptr && Where(args);
  return CallMethod(name == "amax"   ? "max"
                    : name == "amin" ? "min"
                                     : name,
                    all, keyword_names);
}

bool ArrayArithmetic::CallUfunc(PyObject* callable,
                                absl::Span<PyObject* const> args) {
  static const auto& names = *new absl::flat_hash_map<std::string, std::string>{
      {"add", "add"},    {"subtract", "sub"},  {"multiply", "mul"},
      {"divide", "div"}, {"power", "pow"},     {"negative", "neg"},
      {"sqrt", "sqrt"},  {"square", "square"}, {"absolute", "abs"}};
  const PyRef name = PyRef::Steal(PyObject_GetAttrString(callable, "__name__"));
  if (!name) PyErr_Clear();
  const auto it = name ? names.find(PyText(name.get())) : names.end();
  return it != names.end() && Operate(it->second, args);
}

bool ArrayArithmetic::CallMethod(absl::string_view name,
                                 absl::Span<PyObject* const> args,
                                 PyObject* keyword_names) {
  PyObject* tensor = args.empty() || args[0] == nullptr || !IsArray(args[0])
                         ? nullptr
                         : arrays_.TensorOf(args[0]);
  if (tensor == nullptr || !IsInOrder(tensor) || !IsQuiet()) return false;
  const PyRef dtype = PyRef::Steal(PyObject_GetAttrString(tensor, "dtype"));
  const std::string type = dtype ? DtypeName(dtype.get()) : "";
  if (type != "float32" && type != "float64") return false;
  if (name == "clip") {
    return keyword_names == nullptr && Clip(tensor, args.subspan(1));
  }
  PyObject* dim = nullptr;
  const size_t num_named =
      keyword_names == nullptr
          ? 0
          : static_cast<size_t>(PyTuple_GET_SIZE(keyword_names));
  const size_t num_plain = args.size() - num_named;
  if (num_plain > 2) return false;
  if (num_plain == 2) dim = args[1];
  for (size_t i = 0; i < num_named; ++i) {
    const std::string word =
        PyText(PyTuple_GET_ITEM(keyword_names, static_cast<Py_ssize_t>(i)));
    PyObject* value = args[num_plain + i];
    if (word == "axis") {
      dim = value;
    } else if (!((word == "dtype" || word == "out") && value == Py_None)) {
      return false;
    }
  }
  if (dim == nullptr || !PyLong_CheckExact(dim)) return false;
  return Reduce(name, tensor, dim);
}

bool ArrayArithmetic::Where(absl::Span<PyObject* const> args) {
  static PyObject* where = FunctionOfTorch("where");
  if (args.size() != 3) return false;
  bool is_any = false;
  for (PyObject* arg : args) {
    if (arg == nullptr) return false;
    is_any |= IsArray(arg) && arrays_.TensorOf(arg) != nullptr;
    const bool is_number = PyFloat_CheckExact(arg) || PyLong_CheckExact(arg);
    if (!IsArray(arg) && !(is_number && arg != args[0])) return false;
  }
  if (!is_any || !IsArray(args[0])) return false;
  const PyRef dtype = PyRef::Steal(PyObject_GetAttrString(args[0], "dtype"));
  // Of two numbers torch makes the default type.
  if (!dtype || DtypeName(dtype.get()) != "bool" ||
      !(IsArray(args[1]) || IsArray(args[2]))) {
    PyErr_Clear();
    return false;
  }
  std::vector<PyRef> operands;
  for (PyObject* arg : args) {
    operands.push_back(OperandOf(arg));
    if (!operands.back()) return static_cast<bool>(refusal());
  }
  if (!AgreeOnType(*Find("add"), args.subspan(1),
                   absl::MakeConstSpan(operands).subspan(1))) {
    return false;
  }
  std::vector<PyObject*> from;
  for (PyObject* arg : args) {
    PyObject* tensor = IsArray(arg) ? arrays_.TensorOf(arg) : nullptr;
    if (tensor != nullptr) from.push_back(tensor);
    if (!IsArray(arg)) values_.MarkExactDeep(arg);
  }
  arrays_.NoteForm();
  return arrays_.Show(PyRef::Steal(PyObject_CallFunctionObjArgs(
                          where, operands[0].get(), operands[1].get(),
                          operands[2].get(), nullptr)),
                      from);
}

bool ArrayArithmetic::Clip(PyObject* tensor,
                           absl::Span<PyObject* const> bounds) {
  static PyObject* clamp = FunctionOfTorch("clamp");
  if (bounds.size() != 2) return false;
  for (PyObject* bound : bounds) {
    if (!PyFloat_CheckExact(bound) && !PyLong_CheckExact(bound)) return false;
    // Which zero comes out, of two.
    const bool is_zero = PyObject_Not(bound) == 1;
    if (is_zero && values_.is_exact()) return false;
  }
  const PyRef data = DataTensorOf(tensor);
  PyRef cut = PyRef::Steal(PyObject_CallFunctionObjArgs(
      clamp, data.get(), bounds[0], bounds[1], nullptr));
  for (PyObject* bound : bounds) values_.MarkExactDeep(bound);
  arrays_.NoteForm();
  return arrays_.Show(std::move(cut), {&tensor, 1});
}

bool ArrayArithmetic::Reduce(absl::string_view name, PyObject* tensor,
                             PyObject* dim) {
  if (values_.is_exact() || TensorMeta::Of(tensor).sizes.size() < 2) {
    return false;
  }
  static const auto& functions =
      *new absl::flat_hash_map<std::string, PyObject*>{
          {"mean", FunctionOfTorch("mean")}, {"sum", FunctionOfTorch("sum")},
          {"var", FunctionOfTorch("var")},   {"std", FunctionOfTorch("std")},
          {"max", FunctionOfTorch("amax")},  {"min", FunctionOfTorch("amin")}};
  const auto it = functions.find(name);
  if (it == functions.end() || NumElements(tensor) == 0) return false;
  const PyRef data = DataTensorOf(tensor);
  const PyRef args = PyRef::Steal(PyTuple_Pack(2, data.get(), dim));
  PyRef keywords = PyRef::Steal(PyDict_New());
  static PyObject* zero = PyLong_FromLong(0);
  if (!args || !keywords ||
      ((name == "var" || name == "std") &&
       PyDict_SetItemString(keywords.get(), "correction", zero) != 0)) {
    PyErr_Clear();
    return false;
  }
  values_.MarkExactDeep(dim);
  arrays_.NoteForm();
  arrays_.TouchContext();
  return arrays_.Show(
      PyRef::Steal(PyObject_Call(it->second, args.get(), keywords.get())),
      {&tensor, 1});
}

}  // namespace mica
