#include "python/capture/watch/array_arithmetic.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/array_forms.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

struct ArrayArithmetic::Operator {
  PyObject* function = nullptr;  // torch's.
  size_t num_operands = 2;
  bool is_of_floats = false;  // Of ints the two give other types.
  bool is_comparison = false;
  bool takes_square = false;  // By 2 alone; the function gets the base twice.
};

namespace {

bool IsPlainNumber(PyObject* object) {
  return PyFloat_CheckExact(object) || PyLong_CheckExact(object);
}

// Numbers of numpy's that have a type of their own.
bool IsNumpyNumber(PyObject* object) {
  const absl::string_view name = Py_TYPE(object)->tp_name;
  return name == "numpy.float64" || name == "numpy.float32" ||
         name == "numpy.int64";
}

bool IsTwo(PyObject* object) {
  return (PyLong_CheckExact(object) && PyLong_AsLong(object) == 2) ||
         (PyFloat_CheckExact(object) && PyFloat_AS_DOUBLE(object) == 2.0);
}

// An int that numpy and torch take for one of an array's.
bool FitsInts(PyObject* object) {
  if (!PyLong_CheckExact(object)) return true;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  constexpr long long kMost = 1LL << 31;
  return overflow == 0 && std::abs(value) < kMost;
}

// Of the same type, sizes and numbers, in order.
bool IsAlike(PyObject* a, PyObject* b) {
  const TensorMeta one = TensorMeta::Of(a), other = TensorMeta::Of(b);
  return one.dtype == other.dtype && one.sizes == other.sizes && IsInOrder(a) &&
         IsInOrder(b) && ElementBytes(a) == ElementBytes(b);
}

}  // namespace

const ArrayArithmetic::Operator* ArrayArithmetic::Find(absl::string_view name) {
  static const auto& known = *new absl::flat_hash_map<std::string, Operator>{
      {"add", {.function = FunctionOfTorch("add")}},
      {"sub", {.function = FunctionOfTorch("sub")}},
      {"mul", {.function = FunctionOfTorch("mul")}},
      {"div", {.function = FunctionOfTorch("div"), .is_of_floats = true}},
      {"pow",
       {.function = FunctionOfTorch("mul"),
        .is_of_floats = true,
        .takes_square = true}},
      {"lt", {.function = FunctionOfTorch("lt"), .is_comparison = true}},
      {"le", {.function = FunctionOfTorch("le"), .is_comparison = true}},
      {"gt", {.function = FunctionOfTorch("gt"), .is_comparison = true}},
      {"ge", {.function = FunctionOfTorch("ge"), .is_comparison = true}},
      {"eq", {.function = FunctionOfTorch("eq"), .is_comparison = true}},
      {"ne", {.function = FunctionOfTorch("ne"), .is_comparison = true}},
      {"neg", {.function = FunctionOfTorch("neg"), .num_operands = 1}},
      {"abs", {.function = FunctionOfTorch("abs"), .num_operands = 1}},
      {"sqrt",
       {.function = FunctionOfTorch("sqrt"),
        .num_operands = 1,
        .is_of_floats = true}},
      {"square",
       {.function = FunctionOfTorch("square"),
        .num_operands = 1,
        .is_of_floats = true}}};
  const auto it = known.find(name);
  return it == known.end() || it->second.function == nullptr ? nullptr
                                                             : &it->second;
}

bool ArrayArithmetic::Binary(const char* op, PyObject* a, PyObject* b) {
  return op != nullptr && Operate(op, {{a, b}});
}

bool ArrayArithmetic::Compare(Order order, PyObject* a, PyObject* b) {
  // torch wants the tensor first.
  const bool is_swapped = IsArray(b) && !IsArray(a);
  const auto word = [order, is_swapped] {
    switch (order) {
      case Order::kLess:
        return is_swapped ? "gt" : "lt";
      case Order::kLessEqual:
        return is_swapped ? "ge" : "le";
      case Order::kGreater:
        return is_swapped ? "lt" : "gt";
      case Order::kGreaterEqual:
        return is_swapped ? "le" : "ge";
      case Order::kEqual:
        return "eq";
      case Order::kNotEqual:
        return "ne";
    }
    return "";
  };
  if (is_swapped) std::swap(a, b);
  return Operate(word(), {{a, b}});
}

bool ArrayArithmetic::Negate(PyObject* a) { return Operate("neg", {{a}}); }

bool ArrayArithmetic::UseItem(PyObject* container, PyObject* key) {
  if (refusal() || !values_.has_arrays() || !IsArray(container) ||
      is_in_later_pass()) {
    return false;
  }
  PyObject* tensor = arrays_.TensorOf(container);
  const PyRef data =
      tensor == nullptr ? arrays_.AsTensor(container) : DataTensorOf(tensor);
  const PyRef places = data ? arrays_.PlacesOf(data.get(), key) : PyRef();
  if (!places) return PyErr_Clear(), false;
  if (tensor == nullptr) {
    return arrays_.WantAsArgument(container, "takes items that vary of ");
  }
  static PyObject* get_item =
      ResolveName("torch._C.TensorBase.__getitem__").release();
  computed_ = PyRef::Steal(PyObject_CallFunctionObjArgs(get_item, data.get(),
                                                        places.get(), nullptr));
  if (!computed_) return PyErr_Clear(), false;  // As numpy raises.
  arrays_.NoteForm();
  arrays_of_step_.push_back(PyRef::Share(container));
  return true;
}

PyRef ArrayArithmetic::ConstantOf(PyObject* array) {
  // Its contents are guarded, or follow from what is.
  objects_.Touch(array, kDeep);
  if (refusal()) return {};
  recorder_.Mute(/*begins=*/true);
  const PyRef shown = TensorOfArray(array);
  PyRef copy =
      shown ? PyRef::Steal(PyObject_CallMethod(shown.get(), "clone", nullptr))
            : PyRef();
  recorder_.Mute(/*begins=*/false);
  if (!copy || !recorder_.on_made) {
    PyErr_Clear();
    return {};
  }
  recorder_.on_made(copy.get());
  return copy;
}

PyRef ArrayArithmetic::ScalarLike(PyObject* tensor, PyObject* number) {
  recorder_.Mute(/*begins=*/true);
  const PyRef form = PyRef::Steal(PyTuple_New(0));
  PyRef scalar = PyRef::Steal(
      PyObject_CallMethod(tensor, "new_full", "OO", form.get(), number));
  recorder_.Mute(/*begins=*/false);
  if (!scalar || !recorder_.on_made) {
    PyErr_Clear();
    return {};
  }
  recorder_.on_made(scalar.get());
  return scalar;
}

PyRef ArrayArithmetic::OperandOf(PyObject* object) {
  if (IsArray(object)) {
    PyObject* tensor = arrays_.TensorOf(object);
    if (tensor == nullptr) return ConstantOf(object);
    return IsInOrder(tensor) ? DataTensorOf(tensor) : PyRef();
  }
  if (IsPlainNumber(object)) return PyRef::Share(object);
  values_.MarkExactDeep(object);
  PyRef plain =
      PyRef::Steal(absl::string_view(Py_TYPE(object)->tp_name) == "numpy.int64"
                       ? PyNumber_Long(object)
                       : PyNumber_Float(object));
  if (!plain) PyErr_Clear();
  return plain;
}

bool ArrayArithmetic::AgreeOnType(const Operator& op,
                                  absl::Span<PyObject* const> args,
                                  absl::Span<const PyRef> operands) const {
  static PyObject* of_numpy = ResolveName("numpy.result_type").release();
  static PyObject* of_torch = FunctionOfTorch("result_type");
  std::string theirs, ours;
  if (operands.size() == 1) {
    const PyRef own = PyRef::Steal(PyObject_GetAttrString(args[0], "dtype"));
    const PyRef dtype =
        PyRef::Steal(PyObject_GetAttrString(operands[0].get(), "dtype"));
    if (own && dtype)
      theirs = DtypeName(own.get()), ours = DtypeName(dtype.get());
  } else {
    const PyRef own = PyRef::Steal(
        PyObject_Vectorcall(of_numpy, args.data(), args.size(), nullptr));
    recorder_.Mute(/*begins=*/true);
    const PyRef dtype = PyRef::Steal(PyObject_CallFunctionObjArgs(
        of_torch, operands[0].get(), operands[1].get(), nullptr));
    recorder_.Mute(/*begins=*/false);
    if (own && dtype)
      theirs = DtypeName(own.get()), ours = DtypeName(dtype.get());
  }
  PyErr_Clear();
  if (theirs != ours) return false;
  if (ours == "float32" || ours == "float64") return true;
  return ours == "int64" && !op.is_of_floats && absl::c_all_of(args, FitsInts);
}

bool ArrayArithmetic::Operate(absl::string_view name,
                              absl::Span<PyObject* const> args) {
  if (refusal() || !values_.has_arrays() || is_in_later_pass()) return false;
  bool is_any = false;
  for (PyObject* arg : args) {
    if (arg == nullptr) return false;
    if (IsArray(arg)) {
      is_any |= arrays_.TensorOf(arg) != nullptr;
    } else if (!IsPlainNumber(arg) && !IsNumpyNumber(arg)) {
      return false;
    }
  }
  const Operator* op = is_any ? Find(name) : nullptr;
  if (op == nullptr || args.size() != op->num_operands || !IsQuiet() ||
      (op->takes_square && !IsTwo(args[1]))) {
    return false;
  }
  std::vector<PyRef> operands;
  for (PyObject* arg : args) {
    operands.push_back(OperandOf(arg));
    if (!operands.back()) return static_cast<bool>(refusal());
  }
  if (!AgreeOnType(*op, args, operands)) return false;
  // A quotient by an array is no product with what 1 is divided by it, as torch
  // has it for numbers.
  const bool is_fixed = name == "div" && !IsTensor(operands[0].get());
  if (is_fixed) operands[0] = ScalarLike(operands[1].get(), operands[0].get());
  if (!operands[0]) return false;
  if (op->takes_square) operands[1] = operands[0];
  computed_ = PyRef::Steal(PyObject_CallFunctionObjArgs(
      op->function, operands[0].get(),
      operands.size() > 1 ? operands[1].get() : nullptr, nullptr));
  if (!computed_) {  // As numpy raises, for their sizes.
    PyErr_Clear();
    return false;
  }
  arrays_.NoteForm();
  arrays_.TouchContext();
  for (PyObject* arg : args) {
    if (IsArray(arg)) {
      arrays_of_step_.push_back(PyRef::Share(arg));
    } else if (values_.Find(arg) >= 0 && !op->takes_square && !is_fixed) {
      numbers_.Pass(arg, /*is_operand=*/true);
    } else {
      values_.MarkExactDeep(arg);
    }
  }
  return true;
}

void ArrayArithmetic::EndStep(PyObject** top) {
  const PyRef computed = std::exchange(computed_, {});
  const std::vector<PyRef> from = std::exchange(arrays_of_step_, {});
  PyObject* result = top == nullptr ? nullptr : *top;
  if (!computed || result == nullptr || refusal()) return;
  const auto refuse = [this] {
    Refuse("computes with a numpy array otherwise than torch does",
           "keep the computation in tensors");
  };
  const PyRef given = IsArray(result) ? arrays_.AsTensor(result) : PyRef();
  if (!given || !IsAlike(given.get(), computed.get())) return refuse();
  if (from[0].get() == result) {  // a += b
    PyObject* written = arrays_.TensorOf(result);
    if (written == nullptr) {
      return Refuse("adds what varies to a numpy array in place, or its like",
                    "give it a new array");
    }
    return Write(written, computed.get());
  }
  static PyObject* numpy = ResolveName("torch._C.TensorBase.numpy").release();
  recorder_.Mute(/*begins=*/true);  // It detaches.
  PyRef array = PyRef::Steal(PyObject_CallOneArg(numpy, computed.get()));
  recorder_.Mute(/*begins=*/false);
  if (!array) {
    PyErr_Clear();
    return refuse();
  }
  ages_.PinYoung(array.get());
  values_.AddArray(array.get(), computed.get());
  for (const PyRef& one : from) {
    if (PyObject* tensor = arrays_.TensorOf(one.get())) {
      values_.drawn().AddMadeOf(computed.get(), tensor);
    }
  }
  Py_SETREF(*top, array.release());
}

void ArrayArithmetic::Write(PyObject* tensor, PyObject* computed) {
  static PyObject* copy = ResolveName("torch._C.TensorBase.copy_").release();
  const PyRef data = DataTensorOf(tensor);
  const PyRef done = data ? PyRef::Steal(PyObject_CallFunctionObjArgs(
                                copy, data.get(), computed, nullptr))
                          : PyRef();
  if (done) return;
  PyErr_Clear();
  Refuse("writes a numpy array in place, which torch can't");
}

}  // namespace mica
