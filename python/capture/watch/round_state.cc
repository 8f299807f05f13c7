#include "python/capture/watch/round_state.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
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
  kIterator,
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

  // Ways of several runs may meet here.
  void NameTensors(const NameOf& name_of,
                   std::vector<WayEvent::Tensor>* tensors) {
    name_of_ = &name_of;
    tensors_ = tensors;
  }

  // After all was described.
  void FindOwn(absl::Span<PyObject* const> variables,
               absl::Span<PyObject* const> operands) {
    for (size_t i = 0; i < objects_.size(); ++i) {
      const auto count = absl::c_count(variables, objects_[i]) +
                         absl::c_count(operands, objects_[i]);
      (*tensors_)[i].is_own = Py_REFCNT(objects_[i]) == count;
    }
  }

  void Describe(PyObject* object, int depth) {
    if (object == nullptr) return Put(kNothing);
    const int64_t given = depth == 0 ? GivenAt(object) : -1;
    if (given >= 0 && !IsMade(object)) {
      Put(kGiven);
      Put(given);
      if (!IsTensor(object)) return;
      state_.items_.push_back({.meta = {TensorMeta::Of(object)}});
      return;
    }
    if (const HostValues::Id id = values_.Find(object); id >= 0) {
      if (!values_.IsSize(id)) return PutOwn(object);
      if (is_of_ways()) {
        state_.items_.push_back({.constant = values_.PlainOf(object)});
        return;
      }
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
    if (!is_of_ways() && IsMade(object)) return DescribeTensor(object, given);
    const auto [it, is_new] = state_.seen_.try_emplace(
        object, static_cast<int64_t>(state_.seen_.size()));
    if (!is_new) {
      Put(kSeen);
      return Put(it->second);
    }
    if (is_of_ways() && !ages_.IsOld(object)) {
      if (IsTensor(object)) return NameTensor(object);
      if (depth > kDeepest || ages_.IsInput(object)) return PutOwn(object);
    }
    if (depth > kDeepest || ages_.IsInput(object) || ages_.IsOld(object)) {
      return PutItself(object);
    }
    if (!DescribeContainer(object, depth) && !DescribeCode(object, depth) &&
        !(is_of_ways() && DescribeIterator(object, depth))) {
      PutOwn(object);
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

  // What the run has made: another one in each run.
  void PutOwn(PyObject* object) {
    static int64_t num_own = 0;
    if (!is_of_ways()) return PutItself(object);
    Put(kItself);
    Put(-++num_own);
  }
  bool is_of_ways() const { return tensors_ != nullptr; }

  void NameTensor(PyObject* tensor) {
    const TapeTensorId id = (*name_of_)(tensor);
    if (!IsPlainTensor(tensor) || !TensorMeta::HasAllOf(tensor) ||
        HasOwnAttributes(tensor) || id == kNoTapeTensor) {
      return PutOwn(tensor);
    }
    Put(kTensor);
    Put(AddressOf(Py_TYPE(tensor)));
    state_.items_.push_back({.meta = {TensorMeta::Of(tensor)}});
    tensors_->push_back({.id = id});
    objects_.push_back(tensor);
  }

  // Iterators that say what they would go through.
  bool DescribeIterator(PyObject* object, int depth) {
    static constexpr absl::string_view kTypes[] = {"list_iterator",
                                                   "tuple_iterator",
                                                   "range_iterator",
                                                   "enumerate",
                                                   "zip",
                                                   "list_reverseiterator",
                                                   "dict_keyiterator",
                                                   "dict_valueiterator",
                                                   "dict_itemiterator",
                                                   "reversed"};
    const PyTypeObject* type = Py_TYPE(object);
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 ||
        !absl::c_linear_search(kTypes, absl::string_view(type->tp_name))) {
      return false;
    }
    PyRef form =
        PyRef::Steal(PyObject_CallMethod(object, "__reduce__", nullptr));
    if (!form) {
      PyErr_Clear();
      return false;
    }
    Put(kIterator);
    Put(AddressOf(type));
    forms_.push_back(std::move(form));
    DescribeItems(forms_.back().get(), depth);
    return true;
  }

  // What of that which the loop went through last a variable, or an item of a
  // tuple, is; -1 if it is nothing of it.
  int64_t GivenAt(PyObject* object) const {
    for (size_t i = 0; i < given_.size(); ++i) {
      if (given_[i].get() == object) return static_cast<int64_t>(i);
    }
    return -1;
  }

  // A tensor that a call of the run gave.
  bool IsMade(PyObject* object) const {
    return IsTensor(object) && IsPlainTensor(object) &&
           TensorMeta::HasAllOf(object) && recorder_.find_maker(object)[0] >= 0;
  }

  // One item, so that two may be compared by either: a tensor may be both what
  // the loop went through and what another variable holds in each round.
  void DescribeTensor(PyObject* tensor, int64_t given) {
    const auto [call, output, item] = recorder_.find_maker(tensor);
    Put(kTensor);
    Put(AddressOf(Py_TYPE(tensor)));
    state_.items_.push_back({.what = call,
                             .since = recorder_.NumCalls() - call,
                             .given = given,
                             .output = output,
                             .item = item,
                             .meta = {TensorMeta::Of(tensor)}});
  }

  void DescribeItems(PyObject* sequence, Py_ssize_t from, Py_ssize_t to,
                     int depth) {
    Put(to - from);
    for (Py_ssize_t i = from; i < to; ++i) {
      Describe(PySequence_Fast_GET_ITEM(sequence, i), depth + 1);
    }
  }
  void DescribeItems(PyObject* sequence, int depth) {
    DescribeItems(sequence, 0, PySequence_Fast_GET_SIZE(sequence), depth);
  }

  bool DescribeContainer(PyObject* object, int depth) {
    if (const auto it = grown_.find(object); it != grown_.end()) {
      Put(kGrownList);
      Put(AddressOf(object));
      // What was there before was described when it came.
      const Py_ssize_t size = PyList_GET_SIZE(object);
      const Py_ssize_t old = std::min(it->second.size, size);
      Put(it->second.at_front ? 1 : 0);
      if (it->second.at_front) {
        DescribeItems(object, 0, size - old, depth);
      } else {
        DescribeItems(object, old, size, depth);
      }
      return true;
    }
    if (PyList_CheckExact(object)) {
      Put(kList);
      DescribeItems(object, depth);
      return true;
    }
    if (PyTuple_Check(object)) {
      Put(kTuple);
      Put(AddressOf(Py_TYPE(object)));
      DescribeItems(object, depth - 1);
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
  const NameOf* name_of_ = nullptr;
  std::vector<WayEvent::Tensor>* tensors_ = nullptr;
  std::vector<PyObject*> objects_;  // Of those.
  std::vector<PyRef> forms_;        // Of iterators: their addresses stay taken.
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

RoundState::RoundState(const HostValues& values, ObjectAges& ages,
                       const RecorderHooks& recorder, const NameOf& name_of,
                       absl::Span<PyObject* const> variables,
                       absl::Span<PyObject* const> operands,
                       std::vector<WayEvent::Tensor>* tensors) {
  static const GrownLists& none = *new GrownLists;
  Describer describer(*this, values, ages, recorder, none, {});
  describer.NameTensors(name_of, tensors);
  for (const auto& of : {variables, operands}) {
    Add(static_cast<int64_t>(of.size()));
    for (PyObject* object : of) describer.Describe(object, 0);
  }
  describer.FindOwn(variables, operands);
}

namespace {

// Whether a tensor that the run made is of the sizes of one that it made in the
// round before, or grew, as torch.cat() has it: what follows from its sizes is
// followed.
bool IsLikeBefore(const TensorMeta& now, const TensorMeta& before) {
  if (now == before) return true;
  TensorMeta like = now;
  like.sizes = before.sizes;
  like.strides = before.strides;
  if (like != before || now.sizes.size() != before.sizes.size()) return false;
  int64_t dense_now = 1, dense_before = 1;
  for (size_t d = now.sizes.size(); d-- > 0;) {
    constexpr int64_t kLeast = 2;
    const int64_t size = now.sizes[d], was = before.sizes[d];
    if (size != was && std::min(size, was) < kLeast) return false;
    if (now.strides[d] != dense_now || before.strides[d] != dense_before) {
      return false;
    }
    dense_now *= size;
    dense_before *= was;
  }
  return true;
}

}  // namespace

bool operator==(const RoundState& a, const RoundState& b) {
  if (a.items_.size() != b.items_.size()) return false;
  for (size_t i = 0; i < a.items_.size(); ++i) {
    const RoundState::Item &one = a.items_[i], &other = b.items_[i];
    const bool is_given = one.given >= 0 && one.given == other.given;
    const bool is_made = one.since > 0 && one.since == other.since;
    const bool is_same = (one.what == other.what || is_made) &&
                         one.output == other.output && one.item == other.item;
    const bool is_like =
        one.meta == other.meta ||
        (is_made && one.meta.size() == 1 && other.meta.size() == 1 &&
         IsLikeBefore(one.meta[0], other.meta[0]));
    if ((!is_same && !is_given) || !is_like ||
        !SameValue(one.constant.get(), other.constant.get())) {
      return false;
    }
  }
  return true;
}

}  // namespace mica
