#include <cmath>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "python/capture/constants.h"
#include "python/capture/purity.h"
#include "python/capture/state_watch.h"

namespace mica {

void StateWatch::AddItem(PyObject* dict, PyObject* key, GuardNote note) {
  if (varying_ != nullptr && varying_->HasItem(dict, key)) {
    PyObject* value = PyDict_GetItemWithError(dict, key);
    if (value != nullptr && PyFloat_CheckExact(value)) {
      if (values_.HasItem(dict, key)) return;
      // It is followed by its identity: no other place may hold this object.
      const PyRef number = NewFloat(value);
      if (!number || PyDict_SetItem(dict, key, number.get()) != 0) {
        return PyErr_Clear();
      }
      return values_.AddItem(number.get(), dict, key, std::move(note));
    }
    PyErr_Clear();
  }
  guards_.AddItem(dict, key, note);
}

void StateWatch::EndStep(PyObject* result, bool entered) {
  if (std::exchange(makes_host_call_, false)) {
    if (on_host_call_) on_host_call_(/*begins=*/false);
    if (annotated_ != nullptr && result != Py_None) {
      Refuse("uses what a call into the world outside returns",
             "annotate only what returns None so");
    }
  }
  if (refusal_) return;
  if (makes_constant_ && result != nullptr) CallGave(result);
  if (makes_array_ && result != nullptr && IsArray(result)) AddNewArray(result);
  if (makes_iterator_ && result != nullptr && !PyObject_IS_GC(result) &&
      PyIter_Check(result)) {
    young_.insert(result);  // Of a range.
  }
  if (host_op_ != nullptr) {
    std::vector<PyObject*> operands;
    for (const PyRef& operand : host_operands_) {
      operands.push_back(operand.get());
    }
    if (result == nullptr || !values_.AddOp(result, host_op_, operands)) {
      for (PyObject* operand : operands) values_.MarkExact(operand);
    }
  }
  if (on_step_end_) on_step_end_(result, entered);
}

void StateWatch::Binary(const char* op, PyObject* a, PyObject* b) {
  makes_array_ = IsArray(a) || IsArray(b);
  const bool a_known = values_.Find(a) >= 0;
  const bool b_known = values_.Find(b) >= 0;
  const auto is_number = [](PyObject* object) {
    return PyFloat_CheckExact(object) || PyLong_CheckExact(object);
  };
  if ((a_known || b_known) && op != nullptr && is_number(a) && is_number(b)) {
    host_op_ = op;
    host_operands_.push_back(PyRef::Share(a));
    host_operands_.push_back(PyRef::Share(b));
    return;
  }
  for (const auto& [known, number, other] :
       {std::make_tuple(a_known, a, b), std::make_tuple(b_known, b, a)}) {
    if (known && IsTensor(other)) {
      PassNumber(number);
    } else {
      Touch(number);
    }
  }
}

void StateWatch::CompareNumbers(Order order, PyObject* a, PyObject* b) {
  if (refusal_) return;
  const bool a_known = values_.Find(a) >= 0, b_known = values_.Find(b) >= 0;
  if (IsTensor(a) || IsTensor(b)) {
    a_known ? PassNumber(a) : Touch(a);
    b_known ? PassNumber(b) : Touch(b);
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
  Touch(a);
  Touch(b);
}

void StateWatch::TestTruth(PyObject* object) {
  if (refusal_) return;
  static PyObject* zero = PyFloat_FromDouble(0);
  if (values_.Find(object) < 0) return Touch(object);
  CompareNumbers(Order::kEqual, object, zero);
}

bool StateWatch::AskOfNumbers(PyObject* function,
                              absl::Span<PyObject* const> args) {
  const auto is_known = [this](PyObject* arg) {
    return arg != nullptr && values_.Find(arg) >= 0;
  };
  const auto is_number = [](PyObject* arg) {
    return arg != nullptr &&
           (PyFloat_CheckExact(arg) || PyLong_CheckExact(arg));
  };
  if (values_.empty() || !absl::c_any_of(args, is_known) ||
      !absl::c_all_of(args, is_number)) {
    return false;
  }
  const std::string name = CallableName(function);
  if (args.size() == 2 && (name == "builtins.max" || name == "builtins.min")) {
    // The second only if it is further than the first: the very object.
    CompareNumbers(name == "builtins.max" ? Order::kGreater : Order::kLess,
                   args[1], args[0]);
    return true;
  }
  if (args.size() != 1 || !(name == "math.isnan" || name == "math.isinf" ||
                            name == "math.isfinite")) {
    return false;
  }
  static PyObject* infinity = PyFloat_FromDouble(HUGE_VAL);
  static PyObject* minus_infinity = PyFloat_FromDouble(-HUGE_VAL);
  if (name != "math.isinf") CompareNumbers(Order::kEqual, args[0], args[0]);
  if (name == "math.isnan") return true;
  CompareNumbers(Order::kEqual, args[0], infinity);
  CompareNumbers(Order::kEqual, args[0], minus_infinity);
  return true;
}

void StateWatch::Negate(PyObject* number) {
  if (values_.Find(number) < 0) return Touch(number);
  host_op_ = "mica.scalar_neg";
  host_operands_.push_back(PyRef::Share(number));
}

void StateWatch::Store(PyObject* owner, PyObject* value) {
  if (refusal_ || values_.empty() || !values_.HasKnown(value)) return;
  // What is left in a place of the state is made again from the run's numbers.
  if (owner == nullptr || PyCell_Check(owner) || PyDict_CheckExact(owner)) {
    return;
  }
  const bool is_instance = IsPythonClass(Py_TYPE(owner)) &&
                           InstanceDict(owner) != nullptr && !IsTensor(owner);
  if (is_instance && !inputs_.contains(owner)) return;
  if (IsOld(owner) || inputs_.contains(owner)) values_.MarkExactDeep(value);
}

void StateWatch::PassNumber(PyObject* number) {
  if (const HostValues::Id id = values_.Find(number); id >= 0) {
    passed_.push_back({.items = {{.id = id, .constant = values_.value(id)}}});
  }
}

void StateWatch::PassNumbers(PyObject* items) {
  PassedNumbers passed{.is_list = true};
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items, i);
    TapeHostOperand& number = passed.items.emplace_back();
    number.id = values_.Find(item);
    if (number.id >= 0) {
      number.constant = values_.value(number.id);
    } else if (PyFloat_CheckExact(item)) {
      number.constant = PyFloat_AS_DOUBLE(item);
    } else if (PyLong_CheckExact(item)) {
      number.constant = PyLong_AsDouble(item);
    } else {
      return TouchObject(items, kDeepDepth);
    }
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return TouchObject(items, kDeepDepth);
    }
  }
  passed_.push_back(std::move(passed));
}

}  // namespace mica
