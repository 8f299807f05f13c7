// How numbers are passed to operators.

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "python/capture/values/numbers.h"
#include "python/capture/values/sequences.h"
#include "python/capture/watch/number_watch.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

void NumberWatch::Pass(PyObject* number, bool is_operand) {
  if (const HostValues::Id id = values_.Find(number); id >= 0) {
    if (values_.IsSize(id)) return values_.MarkExactId(id);
    passed_.push_back({.items = {{.id = id, .constant = values_.value(id)}},
                       .is_int = values_.is_int(id),
                       .is_operand = is_operand});
  }
}

bool NumberWatch::PassData(PyObject* data) {
  if (data == nullptr || values_.empty()) return false;
  PassedNumbers passed{.is_int = true, .is_data = true};
  constexpr int kMaxDepth = 8;
  if (!AddData(data, kMaxDepth, &passed) ||
      absl::c_none_of(passed.items, [](const TapeHostOperand& number) {
        return number.id >= 0;
      })) {
    return false;
  }
  passed_.push_back(std::move(passed));
  return true;
}

bool NumberWatch::AddData(PyObject* data, int depth, PassedNumbers* passed) {
  constexpr size_t kMaxNumbers = 64;
  if (PyList_CheckExact(data) || PyTuple_CheckExact(data)) {
    // The items of an older list are the state's, each of them.
    if (depth == 0 || IsOld(data) || IsInput(data)) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(data); ++i) {
      if (!AddData(PySequence_Fast_GET_ITEM(data, i), depth - 1, passed)) {
        return false;
      }
    }
    return true;
  }
  if (IsDeque(data)) {
    if (depth == 0 || IsOld(data) || IsInput(data)) return false;
    const PyRef items = PyRef::Steal(PySequence_List(data));
    if (!items) PyErr_Clear();
    for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
      PyObject* item = PyList_GET_ITEM(items.get(), i);
      if (!AddData(item, depth - 1, passed)) return false;
    }
    return static_cast<bool>(items);
  }
  const std::optional<double> number = NumberOf(data);
  const HostValues::Id id = values_.Find(data);
  if (!number.has_value() || (id >= 0 && values_.IsSize(id)) ||
      passed->items.size() == kMaxNumbers) {
    return false;
  }
  passed->items.push_back({.id = id, .constant = *number});
  passed->is_int &= PyLong_CheckExact(data);
  return true;
}

void NumberWatch::PassItems(PyObject* items) {
  PassedNumbers passed{.is_list = true};
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items, i);
    TapeHostOperand& number = passed.items.emplace_back();
    number.id = values_.Find(item);
    const std::optional<double> value = NumberOf(item);
    // A list of sizes or dims has ints.
    if (!value.has_value() || (number.id >= 0 && (values_.is_int(number.id) ||
                                                  values_.IsSize(number.id)))) {
      return objects_.Touch(items, kDeep);
    }
    number.constant = *value;
  }
  passed_.push_back(std::move(passed));
}

void NumberWatch::PassArguments(absl::Span<PyObject* const> args) {
  for (PyObject* arg : args) {
    if (arg != nullptr && values_.Find(arg) >= 0) {
      Pass(arg);
    } else if (arg != nullptr &&
               (PyList_CheckExact(arg) || PyTuple_CheckExact(arg)) &&
               values_.HasKnown(arg)) {
      PassItems(arg);
    } else {
      passes_tensors_ |= arg != nullptr && IsTensor(arg);
      objects_.Touch(arg, kDeep);
    }
  }
}

}  // namespace mica
