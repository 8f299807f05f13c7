// What a program does in rounds, and who looks at what is as long as a loop.

#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/held.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/call_facts.h"
#include "python/capture/watch/loop_watch.h"
#include "python/capture/watch/object_kinds.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

std::string LastPartOf(PyObject* callable) {
  const std::string name = CallableName(callable);
  return name.substr(name.rfind('.') + 1);
}

// Joins the tensors of a list, of any length.
bool JoinsTensors(PyObject* callable) {
  static constexpr absl::string_view kNames[] = {
      "stack", "cat", "concat", "concatenate", "hstack", "vstack", "dstack"};
  return absl::c_linear_search(kNames, LastPartOf(callable)) &&
         absl::StartsWith(CallableName(callable), "torch.");
}

// Whether a call of list(), tuple() or sum() with a generator is done in
// Python: then a loop asks for what that gives.
bool AsksInPython(PyObject* callable, absl::Span<PyObject* const> args) {
  if (args.empty() || !PyGen_CheckExact(args[0])) return false;
  const bool copies = callable == reinterpret_cast<PyObject*>(&PyList_Type) ||
                      callable == reinterpret_cast<PyObject*>(&PyTuple_Type);
  const bool adds_up = CallableName(callable) == "builtins.sum";
  return (copies && args.size() == 1) || adds_up;
}

}  // namespace

// x[:], x[::-1], x[1:] or x[:-1]: what it leaves out is as much, however long
// the list is.
bool LoopWatch::IsSteadySlice(PyObject* object) const {
  if (!PySlice_Check(object)) return false;
  const auto* slice = reinterpret_cast<PySliceObject*>(object);
  const auto constant = [this](PyObject* part) -> std::optional<double> {
    if (!PyLong_CheckExact(part) || values_.Find(part) >= 0) return {};
    return NumberOf(part);
  };
  const bool is_whole = slice->start == Py_None && slice->stop == Py_None;
  if (slice->step != Py_None) return is_whole && constant(slice->step) == -1.0;
  const bool begins =
      slice->start == Py_None || constant(slice->start).value_or(-1) >= 0;
  const bool ends =
      slice->stop == Py_None || constant(slice->stop).value_or(0) < 0;
  return begins && ends;
}

bool LoopWatch::PutsInFront(absl::Span<PyObject* const> args) const {
  if (args.size() < 2) return false;
  PyObject* place = args[args.size() - 2];
  return PyLong_CheckExact(place) && values_.Find(place) < 0 &&
         NumberOf(place) == 0.0;
}

bool LoopWatch::IsOlder(PyObject* object) {
  return mark_ == nullptr || mark_->Of(object) != AgeMark::Age::kYounger;
}

void LoopWatch::Change(PyObject* object) {
  if (is_on_ && object != nullptr && PyList_CheckExact(object) &&
      parts_.contains(object)) {
    LookAtOne(object);
  }
  if (!is_in_round() || object == nullptr || !IsOlder(object)) return;
  const bool is_own = !IsOld(object) && !IsInput(object);
  if (is_own && (PyList_CheckExact(object) || PyDict_CheckExact(object) ||
                 PyCell_Check(object))) {
    changed_.insert(object);
    return;
  }
  Stop();
}

// What a tensor tells that isn't among its sizes and its like.
void LoopWatch::ReadAttribute(PyObject* owner, PyObject* name) {
  if (!is_in_round() || !IsTensor(owner) || !PyUnicode_Check(name)) return;
  if (TellsMoreThanSizes(name)) Stop();
}

void LoopWatch::WriteItem(PyObject* container, PyObject* key) {
  if (!is_on_) return;
  if (grew_.contains(container)) {
    const Py_ssize_t size = PyList_GET_SIZE(container);
    const std::optional<double> place = NumberOf(key);
    const bool is_last = PyLong_CheckExact(key) && values_.Find(key) < 0 &&
                         place.has_value() && *place < 0 && -*place <= size;
    if (!is_in_round() || !is_last) return LookAtOne(container);
    const auto grown = grown_.find(container);
    if (grown != grown_.end() && grown->second.at_front) Stop();
    uses_.push_back({.list = container, .place = static_cast<int64_t>(*place)});
  }
  if (!IsTensor(container)) Change(container);
}

bool LoopWatch::UseItem(PyObject* container, PyObject* key) {
  if (!is_on_) return false;
  if (grew_.contains(container) && IsSteadySlice(key)) {
    turned_ = container;
    return false;
  }
  const bool is_list =
      (PyList_CheckExact(container) || parts_.contains(container)) &&
      !IsOld(container) && !IsInput(container) && PyLong_CheckExact(key);
  const HostValues::Id id = is_list ? values_.Find(key) : -1;
  const bool is_round =
      id >= 0 && values_.RoundOf(id) >= 0 && !values_.IsExact(id);
  if (!is_list || repeated_.contains(container) ||
      (id >= 0 && !(is_round && is_in_round()))) {
    Look(container);
    Look(key);
    return false;
  }
  const auto place = static_cast<int64_t>(NumberOf(key).value_or(0));
  const auto grown = grown_.find(container);
  if (is_in_round() && grown != grown_.end() && grown->second.at_front) Stop();
  if (is_in_round() && (is_round || IsSized(container))) {
    uses_.push_back({.list = container,
                     .place = place,
                     .size = PySequence_Fast_GET_SIZE(container),
                     .is_round = is_round});
  }
  return is_round;
}

void LoopWatch::Extend(PyObject* list, PyObject* items, bool at_front) {
  if (!is_on_) return;
  const bool is_plain =
      (PyList_CheckExact(items) || PyTuple_CheckExact(items)) &&
      !IsSized(items) && items != list;
  if (is_plain && is_in_round() && IsOlder(list) && !IsOld(list) &&
      !IsInput(list)) {
    const GrownList now{.size = PyList_GET_SIZE(list), .at_front = at_front};
    if (grown_.try_emplace(list, now).first->second.at_front != at_front) {
      Stop();  // At both ends.
    }
    AddSized(list, open_);
    extended_ = list;
  }
  Change(list);
}

bool LoopWatch::Repeat(const char* op, PyObject* list, PyObject* count) {
  if (!is_on_ || op == nullptr || absl::string_view(op) != "mul" ||
      !PyList_CheckExact(list) || PyList_GET_SIZE(list) != 1 || IsOld(list) ||
      IsInput(list) || IsSized(list) || !IsTensor(PyList_GET_ITEM(list, 0))) {
    return false;
  }
  const HostValues::Id id = values_.Find(count);
  if (id < 0 || !values_.IsSize(id) || !values_.is_int(id)) return false;
  repeats_ = id;
  return true;
}

void LoopWatch::LookAtOne(PyObject* object) {
  const auto repeated = repeated_.find(object);
  if (repeated != repeated_.end()) values_.PinSize(repeated->second);
  const auto it = grew_.find(object);
  if (it != grew_.end()) loops_[it->second].is_followed = false;
  if (const auto again = grew_again_.find(object); again != grew_again_.end()) {
    for (const int loop : again->second) loops_[loop].is_followed = false;
  }
  const auto part = parts_.find(object);
  if (part != parts_.end()) fixed_parts_.insert(part->second);
}

void LoopWatch::Look(PyObject* object) {
  if (!is_on_ || object == nullptr) return;
  if (!is_in_round() && grew_.empty() && parts_.empty() && repeated_.empty()) {
    return;
  }
  ForEachHeld(object, Through::kCode, [this](PyObject* held) {
    LookAtIterator(held);
    LookAtOne(held);
  });
}

void LoopWatch::Leave(PyObject* object) {
  if (!is_on_) return;
  LookAtOne(object);
  if (!PyTuple_Check(object)) return;
  // Constants among them are taken as they are.
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    PyObject* item = PyTuple_GET_ITEM(object, i);
    if (PyTuple_Check(item)) Leave(item);
  }
}

void LoopWatch::TakeReturned(PyObject* object) {
  if (!is_on_ || object == nullptr) return;
  if (!PyIter_Check(object)) return Look(object);
  const std::optional<Span> span = SpanOf(object);
  const bool is_of_parts = span.has_value() && !span->gives_counted;
  taken_.emplace_back(PyRef::Share(object), is_of_parts ? span->call : -1);
}

void LoopWatch::CameBack(PyObject* result) {
  if (result != nullptr &&
      (PyList_CheckExact(result) || PyTuple_CheckExact(result))) {
    const bool has_parts = std::exchange(lists_tensor_, false) &&
                           PySequence_Fast_GET_SIZE(result) > 1 &&
                           IsTensor(PySequence_Fast_GET_ITEM(result, 0));
    if (has_parts) {
      PyObject* first = PySequence_Fast_GET_ITEM(result, 0);
      NoteListed(result, recorder_.find_maker(first)[0]);
    }
  }
  for (const auto& [iterator, call] : std::exchange(taken_, {})) {
    bool is_kept = call >= 0 && NoteListed(result, call);
    if (result != nullptr && PyIter_Check(result)) {
      ForEachHeld(result, Through::kCode,
                  [&](PyObject* held) { is_kept |= held == iterator.get(); });
    }
    if (!is_kept) Look(iterator.get());
  }
}

// A list, or a tuple, of all parts that a call gave, in order.
bool LoopWatch::NoteListed(PyObject* list, int32_t call) {
  if (list == nullptr ||
      (!PyList_CheckExact(list) && !PyTuple_CheckExact(list))) {
    return false;
  }
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(list);
  const bool has_all = absl::c_any_of(parts_, [&](const auto& of) {
    return of.second == call && PySequence_Fast_GET_SIZE(of.first) == size;
  });
  if (!has_all || IsOld(list) || IsInput(list)) return false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* part = PySequence_Fast_GET_ITEM(list, i);
    if (!IsTensor(part)) return false;
    const auto [maker, output, item] = recorder_.find_maker(part);
    if (maker != call || item != i) return false;
  }
  if (parts_.try_emplace(list, call).second) {
    pins_.push_back(PyRef::Share(list));
  }
  return true;
}

// One that was there before the round gives something else in each.
void LoopWatch::LookAtIterator(PyObject* iterator) {
  if (is_in_round() && PyIter_Check(iterator) &&
      !own_iterators_.contains(iterator) && IsOlder(iterator)) {
    Stop();
  }
}

// How often a list has a tensor may be the same at other sizes by chance.
void LoopWatch::PinRepeats(absl::Span<PyObject* const> lists) {
  for (PyObject* list : lists) {
    const auto repeated = repeated_.find(list);
    if (repeated != repeated_.end()) values_.MarkExactId(repeated->second);
  }
}

void LoopWatch::Call(PyObject* callable, absl::Span<PyObject* const> args) {
  if (!is_on_ || callable == nullptr) return;
  if (PyMethod_Check(callable)) {
    std::vector<PyObject*> all = {PyMethod_GET_SELF(callable)};
    all.insert(all.end(), args.begin(), args.end());
    return Call(PyMethod_GET_FUNCTION(callable), all);
  }
  if (is_in_round() && MayDiffer(callable)) Stop();
  if (PyFunction_Check(callable)) return;
  if (JoinsTensors(callable)) return PinRepeats(args);
  if (MakesIterator(callable, args)) {
    for (PyObject* arg : args) {
      if (!IsSized(arg)) LookAtIterator(arg);
    }
    return;
  }
  lists_tensor_ |= (callable == reinterpret_cast<PyObject*>(&PyList_Type) ||
                    callable == reinterpret_cast<PyObject*>(&PyTuple_Type)) &&
                   args.size() == 1 && IsTensor(args[0]);
  const bool copies = callable == reinterpret_cast<PyObject*>(&PyList_Type) ||
                      callable == reinterpret_cast<PyObject*>(&PyTuple_Type);
  if (AsksInPython(callable, args)) return LookAtIterator(args[0]);
  if (copies && args.size() == 1 && grew_.contains(args[0])) {
    turned_ = args[0];
    return;
  }
  PyObject* self =
      PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  const bool has_self = self != nullptr && !PyModule_Check(self);
  PyObject* first = has_self ? self : args.empty() ? nullptr : args[0];
  if (first != nullptr && ChangesContainer(callable, first)) {
    const std::string name = LastPartOf(callable);
    PyObject* items = args.empty() ? nullptr : args.back();
    static PyObject* none = PyTuple_New(0);
    if (PyList_CheckExact(first) && name == "append") {
      Extend(first, none);
    } else if (PyList_CheckExact(first) && name == "insert" &&
               PutsInFront(args)) {
      Extend(first, none, /*at_front=*/true);
    } else if (PyList_CheckExact(first) && name == "extend" &&
               items != nullptr && items != first) {
      Extend(first, items);
      if (extended_ != first) LookAtOne(first);
    } else if (name != "reverse" || is_in_round()) {
      LookAtOne(first);
    }
    Change(first);
    for (PyObject* arg : args) {
      if (arg != first) Look(arg);
    }
    return;
  }
  if (!PyCFunction_Check(callable) && !PyType_Check(callable) &&
      IsPythonClass(Py_TYPE(callable))) {
    return;  // Its __call__ is followed.
  }
  if (self != nullptr) Look(self);
  for (PyObject* arg : args) Look(arg);
}

}  // namespace mica
