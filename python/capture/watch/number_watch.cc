#include "python/capture/watch/number_watch.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "kernels/reference/host_arithmetic.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// True if an operator of Python's only moves what `a` holds: it joins two
// containers, repeats one, or is Python code of the class of one of both.
bool MovesItems(PyObject* a, PyObject* b) {
  const auto is_plain_instance = [](PyObject* object) {
    return SolidBase(Py_TYPE(object)) == &PyBaseObject_Type;
  };
  if (is_plain_instance(a) || is_plain_instance(b)) return true;
  if (PyList_Check(a)) return PyList_Check(b) || PyLong_CheckExact(b);
  if (PyTuple_Check(a)) return PyTuple_Check(b) || PyLong_CheckExact(b);
  if (PyDict_Check(a)) return PyDict_Check(b);
  return PyAnySet_Check(a) && PyAnySet_Check(b);
}

// True for what may be set as an attribute of the class `type`, or as an item,
// and is left there as it is.
bool KeepsAttribute(PyTypeObject* type, PyObject* name) {
  static PyObject* set_attribute = Interned("__setattr__");
  PyObject* setter = _PyType_Lookup(type, set_attribute);
  if (setter != nullptr && PyFunction_Check(setter)) return true;  // Followed.
  PyObject* descriptor = _PyType_Lookup(type, name);
  if (descriptor == nullptr || Py_TYPE(descriptor)->tp_descr_set == nullptr) {
    return type->tp_setattro == PyObject_GenericSetAttr;
  }
  if (Py_TYPE(descriptor) == &PyMemberDescr_Type) return IsPythonClass(type);
  if (Py_TYPE(descriptor) != &PyProperty_Type) {
    return IsPythonClass(Py_TYPE(descriptor));  // Its __set__ is followed.
  }
  const PyRef function =
      PyRef::Steal(PyObject_GetAttrString(descriptor, "fset"));
  if (!function) PyErr_Clear();
  return function && PyFunction_Check(function.get());
}

// Whether torch reads the number of such an index: bools and bytes are masks.
bool HoldsOneInt(PyObject* index) {
  if (!IsTensor(index) || !IsPlainTensor(index) ||
      StorageOf(index) == nullptr) {
    return false;
  }
  const TensorMeta meta = TensorMeta::Of(index);
  return meta.sizes.empty() &&
         absl::c_any_of(std::initializer_list<absl::string_view>{"i64", "i32",
                                                                 "i16", "i8"},
                        [&](absl::string_view name) {
                          return meta.dtype == TorchDtype(name);
                        });
}

bool KeepsItem(PyObject* container) {
  static PyObject* set_item = Interned("__setitem__");
  PyObject* setter = _PyType_Lookup(Py_TYPE(container), set_item);
  if (setter != nullptr && PyFunction_Check(setter)) return true;  // Followed.
  return PyList_Check(container) || PyDict_Check(container) ||
         (DequeType() != nullptr && PyObject_TypeCheck(container, DequeType()));
}

}  // namespace

const HostOp* OperatorOf(const std::string& word, PyObject* a, PyObject* b) {
  if (!ScalarOf(a).has_value() || !ScalarOf(b).has_value()) return nullptr;
  // Numpy rounds these in a way of its own.
  const bool is_division = word == "floordiv" || word == "mod";
  if (is_division && (IsNumpyFloat(a) || IsNumpyFloat(b))) return nullptr;
  const bool gives_int = PyLong_CheckExact(a) && PyLong_CheckExact(b);
  const bool is_float = word == "div" || !gives_int;
  return FindHostOp((is_float ? "mica.scalar_" : "mica.int_") + word);
}

void NumberWatch::StoreAttribute(PyObject* owner, PyObject* name,
                                 PyObject* value) {
  const bool is_older_tensor =
      IsTensor(owner) && (IsOld(owner) || IsInput(owner));
  if (is_older_tensor || !KeepsAttribute(Py_TYPE(owner), name)) {
    values_.MarkExactDeep(value);
  }
}

void NumberWatch::StoreItem(PyObject* container, PyObject* value) {
  if (IsTensor(container) && values_.Find(value) >= 0 &&
      !values_.IsSize(values_.Find(value))) {
    Pass(value);
    passed_.back().is_stored = true;
  } else if (IsTensor(container) || !KeepsItem(container)) {
    values_.MarkExactDeep(value);
  }
}

void NumberWatch::Store(PyObject* owner, PyObject* value) {
  step_.stored = value;
  if (refusal() || values_.empty() || !values_.HasKnown(value)) return;
  // What is left in a place of the state is made again from the run's numbers.
  if (owner == nullptr || PyCell_Check(owner) || HasPlainItems(owner) ||
      PyList_CheckExact(owner)) {
    return;
  }
  if (IsTensor(owner)) return;  // StoreItem() and StoreAttribute() follow it.
  const bool is_plain = IsPythonClass(Py_TYPE(owner)) ||
                        Py_TYPE(owner)->tp_setattro == PyObject_GenericSetAttr;
  const bool is_instance = is_plain && InstanceDict(owner) != nullptr;
  if (is_instance) return;
  if (IsOld(owner) || IsInput(owner)) values_.MarkExactDeep(value);
}

void NumberWatch::Binary(const char* op, PyObject* a, PyObject* b) {
  step_.makes_array = IsArray(a) || IsArray(b);
  for (PyObject* operand : {a, b}) {
    objects_.CheckOperand(operand);
    if (absl::StartsWith(Py_TYPE(operand)->tp_name, "numpy.")) {
      arrays_.TouchContext();
    }
  }
  const bool a_known = values_.Find(a) >= 0;
  const bool b_known = values_.Find(b) >= 0;
  if ((a_known || b_known) && op != nullptr) {
    if (const HostOp* found = OperatorOf(op, a, b))
      return Compute(found, {a, b});
  }
  for (const auto& [known, number, other] :
       {std::make_tuple(a_known, a, b), std::make_tuple(b_known, b, a)}) {
    if (known && IsTensor(other)) {
      Pass(number, /*is_operand=*/true);
      continue;
    }
    // Numpy takes the items of a list, bytes(...) % (...) makes text of them.
    if (!MovesItems(number, other)) values_.MarkExactDeep(number);
    objects_.Touch(number);
  }
}

void NumberWatch::Negate(PyObject* number) {
  objects_.CheckOperand(number);
  if (values_.Find(number) < 0) return objects_.Touch(number);
  if (!PyLong_CheckExact(number)) {
    return Compute(FindHostOp("mica.scalar_neg"), {number});
  }
  static PyObject* zero = PyLong_FromLong(0);
  Compute(FindHostOp("mica.int_sub"), {zero, number});
}

void NumberWatch::Compare(Order order, PyObject* a, PyObject* b) {
  if (refusal()) return;
  const bool a_known = values_.Find(a) >= 0, b_known = values_.Find(b) >= 0;
  if (IsTensor(a) || IsTensor(b)) {
    a_known ? Pass(a, /*is_operand=*/true) : objects_.Touch(a);
    b_known ? Pass(b, /*is_operand=*/true) : objects_.Touch(b);
    return;
  }
  if (a_known || b_known) {
    const bool is_swapped =
        order == Order::kGreater || order == Order::kGreaterEqual;
    const char* op = "mica.scalar_eq";
    if (order == Order::kLess || order == Order::kGreater) {
      op = "mica.scalar_lt";
    } else if (order == Order::kLessEqual || order == Order::kGreaterEqual) {
      op = "mica.scalar_le";
    }
    if (values_.AddComparison(op, is_swapped ? b : a, is_swapped ? a : b,
                              CurrentUserLine())) {
      return;
    }
  }
  const bool is_equality = order == Order::kEqual || order == Order::kNotEqual;
  // No number is None.
  if (is_equality && ((a_known && b == Py_None) || (b_known && a == Py_None))) {
    return;
  }
  if (is_equality && CompareSequences(a, b)) return;
  for (PyObject* operand : {a, b}) {
    objects_.CheckOperand(operand);
    objects_.Inspect(operand);
    objects_.Touch(operand);
  }
}

bool NumberWatch::CompareSequences(PyObject* a, PyObject* b) {
  const bool are_tuples = PyTuple_Check(a) && PyTuple_Check(b);
  // What a list of the state holds is a fact that a guard is for.
  const auto is_new_list = [this](PyObject* object) {
    return PyList_CheckExact(object) && !IsOld(object) && !IsInput(object);
  };
  const bool are_lists = is_new_list(a) && is_new_list(b);
  if (!are_tuples && !are_lists) return false;
  if (!values_.HasKnown(a) && !values_.HasKnown(b)) return false;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(a);
  if (count != PySequence_Fast_GET_SIZE(b)) return false;
  const auto items = [count](PyObject* sequence) {
    return absl::MakeConstSpan(PySequence_Fast_ITEMS(sequence),
                               static_cast<size_t>(count));
  };
  for (PyObject* sequence : {a, b}) {
    for (PyObject* item : items(sequence)) {
      if (!NumberOf(item).has_value()) return false;
    }
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *one = items(a)[i], *other = items(b)[i];
    if (values_.Find(one) >= 0 || values_.Find(other) >= 0) {
      values_.AddComparison("mica.scalar_eq", one, other, CurrentUserLine());
    }
    // The rest isn't looked at.
    if (NumberOf(one) != NumberOf(other)) break;
  }
  return true;
}

void NumberWatch::TestTruth(PyObject* object) {
  if (refusal()) return;
  static PyObject* zero = PyFloat_FromDouble(0);
  if (values_.Find(object) < 0) return objects_.Touch(object);
  Compare(Order::kEqual, object, zero);
}

bool NumberWatch::Share(PyObject** number) {
  const HostValues::Id id = values_.Find(*number);
  if (id < 0) return true;
  PyRef shared = SharedInt(*number);
  const bool is_shared = static_cast<bool>(shared);
  if (is_shared) values_.MarkExactId(id);
  if (!is_shared) shared = PyRef::Share(values_.original(id));
  if (shared) Py_SETREF(*number, shared.release());
  return is_shared;
}

bool NumberWatch::ShareTuple(PyObject** tuple) {
  PyObject* original = values_.OriginalTuple(*tuple);
  if (original == nullptr) return false;
  Py_INCREF(original);
  Py_SETREF(*tuple, original);
  return true;
}

bool NumberWatch::ShareAll(absl::Span<PyObject* const> args) {
  bool all = true;
  for (PyObject* const& arg : args) {
    // They are in the stack of the step that calls.
    if (arg != nullptr) all &= Share(const_cast<PyObject**>(&arg));
  }
  return all;
}

bool NumberWatch::PassPlaces(PyObject* tensor, PyObject* key) {
  PyObject* const* items = &key;
  Py_ssize_t count = 1;
  if (PyTuple_CheckExact(key)) {
    items = &PyTuple_GET_ITEM(key, 0);
    count = PyTuple_GET_SIZE(key);
  }
  std::vector<PassedPlace> places;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (items[i] == Py_None || items[i] == Py_Ellipsis) continue;
    const std::optional<PassedPlace> place = PlaceOf(items[i]);
    if (!place.has_value()) return false;
    if (!place->is_slice || place->start.id >= 0) places.push_back(*place);
  }
  const bool is_any =
      std::any_of(places.begin(), places.end(), [](const PassedPlace& place) {
        return place.is_tensor || place.start.id >= 0;
      });
  if (!is_any) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (IsTensor(items[i])) objects_.Touch(items[i]);
  }
  places_ = std::move(places);
  index_ = PyRef::Share(key);
  indexed_ = PyRef::Share(tensor);
  return true;
}

std::optional<PassedPlace> NumberWatch::PlaceOf(PyObject* item) const {
  PassedPlace place{.is_slice = PySlice_Check(item) != 0};
  if (place.is_slice) {
    const auto* slice = reinterpret_cast<PySliceObject*>(item);
    place.start = NumberOrConstant(slice->start);
    place.end = NumberOrConstant(slice->stop);
    // How long it is has to stay.
    const bool is_fixed = place.start.id < 0 && place.end.id < 0;
    const bool moves = place.start.id >= 0 && place.end.id >= 0 &&
                       slice->step == Py_None && place.start.constant >= 0 &&
                       place.end.constant >= place.start.constant &&
                       values_.MoveTogether(place.start.id, place.end.id);
    if (!moves && (!is_fixed || values_.Find(slice->step) >= 0)) return {};
  } else if (PyLong_CheckExact(item)) {
    place.start = NumberOrConstant(item);
  } else if (HoldsOneInt(item)) {
    place.is_tensor = true;
  } else {
    return {};  // Other tensors and lists move dims.
  }
  for (const TapeHostOperand& number : {place.start, place.end}) {
    if (number.id >= 0 && values_.IsSize(number.id)) return {};
  }
  return place;
}

TapeHostOperand NumberWatch::NumberOrConstant(PyObject* number) const {
  const std::optional<double> value = NumberOf(number);
  return {.id = value.has_value() ? values_.Find(number) : -1,
          .constant = value.value_or(-1)};
}

void NumberWatch::SetPlacesRead(absl::Span<const TapeHostOperand> numbers) {
  size_t next = 0;
  for (PassedPlace& place : places_) {
    if (place.is_tensor) place.start = numbers[next++];
  }
}

void NumberWatch::SettlePlaces(bool are_placed,
                               absl::Span<const int64_t> sizes) {
  if (!are_placed) {
    for (const PassedPlace& place : places_) {
      if (place.start.id >= 0) values_.MarkExactId(place.start.id);
    }
    return values_.MarkExactDeep(index_.get());
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    const PassedPlace& place = places_[i];
    const auto size = static_cast<double>(sizes[i]);
    if (place.is_slice) {
      values_.DemandDistance(place.start, place.end);
      values_.DemandRange(place.start, 0, size);
      values_.DemandRange(place.end, 0, size);
    } else if (place.start.id >= 0) {
      values_.DemandRange(place.start, -size, size - 1);
    }
  }
}

void NumberWatch::Compute(const HostOp* op,
                          absl::Span<PyObject* const> operands) {
  op_ = op;
  for (PyObject* operand : operands) {
    operands_.push_back(PyRef::Share(operand));
  }
}

void NumberWatch::BeginStep() {
  op_ = nullptr;
  operands_.clear();
  passed_.clear();
  places_.clear();
  index_ = indexed_ = PyRef();
  passes_tensors_ = false;
}

void NumberWatch::EndStep(PyObject** top) {
  if (op_ == nullptr) return;
  PyObject* result = top == nullptr ? nullptr : *top;
  std::vector<PyObject*> operands;
  for (const PyRef& operand : operands_) operands.push_back(operand.get());
  const PyRef own = result != nullptr && ScalarOf(result).has_value()
                        ? NewNumber(result)
                        : PyRef();
  if (own && values_.AddOp(own.get(), *op_, operands)) {
    // One that the step didn't make: the larger of two, an int's int().
    if (op_->gives_operand || values_.Find(result) >= 0) {
      values_.StandFor(own.get(), result);
    }
    Py_SETREF(*top, PyRef(own).release());
  } else {
    for (PyObject* operand : operands) values_.MarkExact(operand);
  }
}

}  // namespace mica
