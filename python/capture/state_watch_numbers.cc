#include <tuple>
#include <utility>

#include "python/capture/constants.h"
#include "python/capture/state_watch.h"

namespace mica {

void StateWatch::AddItem(PyObject* dict, PyObject* key, GuardNote note) {
  if (varying_ != nullptr && varying_->HasItem(dict, key)) {
    PyObject* value = PyDict_GetItemWithError(dict, key);
    if (value != nullptr && PyFloat_CheckExact(value)) {
      return values_.AddItem(value, dict, key, std::move(note));
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
