#include "python/capture/watch/round_state.h"

#include <algorithm>
#include <cstddef>

#include "absl/algorithm/container.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// What follows in a description.
enum Form : int64_t {
  kNothing,
  kSeen,
  kNumber,
  kTensor,
  kGiven,
  kList,
  kGrownList,
  kTuple,
  kDict,
  kCell,
  kFunction,
  kMethod,
  kInstance,
  kItself,
};

// Deeper, an object stands for what it holds.
constexpr int kDeepest = 8;

int64_t AddressOf(const void* object) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(object));
}

}  // namespace

class RoundState::Describer {
 public:
  Describer(RoundState& state, const HostValues& values, ObjectAges& ages,
            const RecorderHooks& recorder, const GrownLists& grown,
            absl::Span<const PyRef> given)
      : state_(state),
        values_(values),
        ages_(ages),
        recorder_(recorder),
        grown_(grown),
        given_(given) {}

  void Describe(PyObject* object, int depth) {
    if (object == nullptr) return Put(kNothing);
    if (depth == 0 && DescribeGiven(object)) return;
    if (const HostValues::Id id = values_.Find(object); id >= 0) {
      if (!values_.IsSize(id)) return PutItself(object);
      Put(kNumber);
      Put(values_.is_int(id) ? 1 : 0);
      return PutMade(values_.IndexOfSize(id), values_.num_sizes());
    }
    const bool holds_numbers =
        PyTuple_Check(object) && values_.HasKnown(object);
    if (!holds_numbers && IsConstant(object)) {
      state_.items_.push_back({.constant = PyRef::Share(object)});
      return;
    }
    const auto [it, is_new] = state_.seen_.try_emplace(
        object, static_cast<int64_t>(state_.seen_.size()));
    if (!is_new) {
      Put(kSeen);
      return Put(it->second);
    }
    if (depth > kDeepest || ages_.IsInput(object) || ages_.IsOld(object)) {
      return PutItself(object);
    }
    if (IsTensor(object)) return DescribeTensor(object);
    if (!DescribeContainer(object, depth) && !DescribeCode(object, depth)) {
      PutItself(object);
    }
  }

 private:
  void Put(int64_t what) { state_.items_.push_back({.what = what}); }
  // It is the same one, or was made as long before.
  void PutMade(int64_t made, int64_t now) {
    state_.items_.push_back({.what = made, .since = now - made});
  }
  void PutItself(PyObject* object) {
    Put(kItself);
    Put(AddressOf(object));
  }

  // A variable, or an item of a tuple, is what the loop went through last.
  bool DescribeGiven(PyObject* object) {
    for (size_t i = 0; i < given_.size(); ++i) {
      if (given_[i].get() != object) continue;
      Put(kGiven);
      Put(static_cast<int64_t>(i));
      if (IsTensor(object)) {
        state_.items_.push_back({.meta = {TensorMeta::Of(object)}});
      }
      return true;
    }
    return false;
  }

  void DescribeTensor(PyObject* tensor) {
    const auto [call, output, item] = recorder_.find_maker(tensor);
    if (!IsPlainTensor(tensor) || !TensorMeta::HasAllOf(tensor) || call < 0) {
      return PutItself(tensor);
    }
    Put(kTensor);
    PutMade(call, recorder_.NumCalls());
    Put(output);
    Put(item);
    Put(AddressOf(Py_TYPE(tensor)));
    state_.items_.push_back({.meta = {TensorMeta::Of(tensor)}});
  }

  void DescribeItems(PyObject* sequence, Py_ssize_t from, int depth) {
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence);
    Put(size - from);
    for (Py_ssize_t i = from; i < size; ++i) {
      Describe(PySequence_Fast_GET_ITEM(sequence, i), depth + 1);
    }
  }

  bool DescribeContainer(PyObject* object, int depth) {
    if (const auto it = grown_.find(object); it != grown_.end()) {
      Put(kGrownList);
      Put(AddressOf(object));
      // What was there before was described when it came.
      DescribeItems(object, std::min(it->second, PyList_GET_SIZE(object)),
                    depth);
      return true;
    }
    if (PyList_CheckExact(object)) {
      Put(kList);
      DescribeItems(object, 0, depth);
      return true;
    }
    if (PyTuple_Check(object)) {
      Put(kTuple);
      Put(AddressOf(Py_TYPE(object)));
      DescribeItems(object, 0, depth - 1);
      return true;
    }
    if (PyDict_CheckExact(object)) {
      Put(kDict);
      DescribeDict(object, depth);
      return true;
    }
    if (PyCell_Check(object)) {
      Put(kCell);
      Describe(PyCell_GET(object), depth + 1);
      return true;
    }
    return false;
  }

  void DescribeDict(PyObject* dict, int depth) {
    Put(PyDict_GET_SIZE(dict));
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(dict, &position, &key, &value)) {
      Describe(key, depth + 1);
      Describe(value, depth + 1);
    }
  }

  bool DescribeCode(PyObject* object, int depth) {
    if (PyFunction_Check(object)) {
      const auto* function = reinterpret_cast<PyFunctionObject*>(object);
      Put(kFunction);
      for (PyObject* part : {function->func_code, function->func_globals}) {
        Put(AddressOf(part));
      }
      for (PyObject* part : {function->func_closure, function->func_defaults,
                             function->func_kwdefaults, function->func_dict}) {
        Describe(part, depth + 1);
      }
      return true;
    }
    if (PyMethod_Check(object)) {
      Put(kMethod);
      Describe(PyMethod_GET_FUNCTION(object), depth + 1);
      Describe(PyMethod_GET_SELF(object), depth + 1);
      return true;
    }
    PyTypeObject* type = Py_TYPE(object);
    if (IsPythonClass(type) && SolidBase(type) == &PyBaseObject_Type &&
        !HasSlots(type) && InstanceDict(object) != nullptr) {
      Put(kInstance);
      Put(AddressOf(type));
      DescribeDict(InstanceDict(object), depth);
      return true;
    }
    return false;
  }

  RoundState& state_;
  const HostValues& values_;
  ObjectAges& ages_;
  const RecorderHooks& recorder_;
  const GrownLists& grown_;
  const absl::Span<const PyRef> given_;
};

RoundState::RoundState(const HostValues& values, ObjectAges& ages,
                       const RecorderHooks& recorder, const GrownLists& grown,
                       absl::Span<const PyRef> given,
                       absl::Span<PyObject* const> variables,
                       absl::Span<PyObject* const> operands) {
  Describer describer(*this, values, ages, recorder, grown, given);
  for (const auto& of : {variables, operands}) {
    Add(static_cast<int64_t>(of.size()));
    for (PyObject* object : of) describer.Describe(object, 0);
  }
}

bool operator==(const RoundState& a, const RoundState& b) {
  if (a.items_.size() != b.items_.size()) return false;
  for (size_t i = 0; i < a.items_.size(); ++i) {
    const RoundState::Item &one = a.items_[i], &other = b.items_[i];
    const bool is_made = one.since > 0 && one.since == other.since;
    if ((one.what != other.what && !is_made) || one.meta != other.meta ||
        !SameValue(one.constant.get(), other.constant.get())) {
      return false;
    }
  }
  return true;
}

}  // namespace mica
