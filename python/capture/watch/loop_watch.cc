#include "python/capture/watch/loop_watch.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/held.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/call_facts.h"
#include "python/capture/watch/object_kinds.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// Whether what a call does, or gives, may be another in each round though its
// arguments are the same.
bool MayDiffer(CallKind kind) {
  switch (kind) {
    case CallKind::kUnknown:  // Refused, or Python code.
    case CallKind::kPure:
    case CallKind::kOperator:
    case CallKind::kNumberFunction:
    case CallKind::kMoves:
    case CallKind::kTypes:
    case CallKind::kRegistry:
    case CallKind::kReadsState:
    case CallKind::kAsksAgain:
    case CallKind::kGetAttr:
    case CallKind::kUseItem:
    case CallKind::kText:
    case CallKind::kVars:
    case CallKind::kNew:
    case CallKind::kMakesTensor:
    case CallKind::kRecurrent:
    case CallKind::kSplit:
      return false;
    default:
      return true;
  }
}

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

// x[:] or x[::-1].
bool IsWholeSlice(PyObject* object) {
  if (!PySlice_Check(object)) return false;
  const auto* slice = reinterpret_cast<PySliceObject*>(object);
  const bool is_plain =
      slice->step == Py_None ||
      (PyLong_CheckExact(slice->step) && NumberOf(slice->step) == -1.0);
  return slice->start == Py_None && slice->stop == Py_None && is_plain;
}

// Gives an iterator over what it gets.
bool MakesIterator(PyObject* callable, absl::Span<PyObject* const> args) {
  if (callable == reinterpret_cast<PyObject*>(&PyEnum_Type) ||
      callable == reinterpret_cast<PyObject*>(&PyZip_Type) ||
      callable == reinterpret_cast<PyObject*>(&PyReversed_Type)) {
    return true;
  }
  return args.size() == 1 && CallableName(callable) == "builtins.iter";
}

bool IsPlainInt(PyObject* object) { return PyLong_CheckExact(object) != 0; }

}  // namespace

void LoopWatch::BeginStep() {
  made_range_ = nullptr;
  made_iterator_ = nullptr;
  gives_round_ = false;
  iterates_ = nullptr;
  turned_ = nullptr;
  first_call_ = is_on_ ? recorder_.NumCalls() : 0;
}

bool LoopWatch::MakeRange(absl::Span<PyObject* const> args) {
  if (!is_on_ || args.empty() || args.size() > 3) return false;
  static PyObject* zero = PyLong_FromLong(0);
  Span span{.start = PyRef::Share(args.size() > 1 ? args[0] : zero),
            .stop = PyRef::Share(args[args.size() > 1 ? 1 : 0]),
            .gives_number = true};
  bool has_sizes = false;
  for (PyObject* number : {span.start.get(), span.stop.get()}) {
    if (number == nullptr || !IsPlainInt(number)) return false;
    const HostValues::Id id = values_.Find(number);
    if (id >= 0 && !values_.IsSize(id)) return false;
    has_sizes |= id >= 0;
  }
  if (!has_sizes) return false;
  if (args.size() == 3) {
    if (!IsPlainInt(args[2]) || values_.Find(args[2]) >= 0) return false;
    span.step = static_cast<int64_t>(NumberOf(args[2]).value_or(0));
    if (span.step == 0) return false;
  }
  made_range_ = std::make_unique<Span>(std::move(span));
  return true;
}

bool LoopWatch::MakeIterator(PyObject* object) {
  const auto it = ranges_.find(object);
  if (it == ranges_.end()) {
    if (!IsSized(object)) Look(object);
    if (is_in_round()) iterates_ = object;
    return false;
  }
  made_iterator_ = std::make_unique<Span>(it->second);
  return true;
}

void LoopWatch::EndStep(PyObject** top) {
  if (!is_on_) return;
  PyObject* given = top == nullptr ? nullptr : *top;
  if (iterates_ != nullptr && given != nullptr && given != iterates_ &&
      PyIter_Check(given)) {
    own_iterators_.insert(given);
  }
  if (turned_ != nullptr && given != nullptr && given != turned_ &&
      (PyList_CheckExact(given) || PyTuple_CheckExact(given))) {
    AddSized(given, grew_[turned_]);
  }
  if (made_range_ != nullptr) {
    if (given == nullptr || !PyRange_Check(given)) return Pin(*made_range_);
    made_range_->count = PySequence_Size(given);
    pins_.push_back(PyRef::Share(given));
    ranges_[given] = std::move(*made_range_);
  } else if (made_iterator_ != nullptr) {
    if (given == nullptr || !PyIter_Check(given)) return Pin(*made_iterator_);
    pins_.push_back(PyRef::Share(given));
    iterators_[given] = std::move(*made_iterator_);
  } else if (gives_round_ && is_in_round()) {
    if (!GiveRound(top)) Stop();
  } else if (given != nullptr && recorder_.NumCalls() == first_call_ + 1) {
    NoteParts(given);
  }
}

void LoopWatch::NoteGiven(Loop& loop, PyObject* given) {
  if (given == nullptr) return;
  if (IsPlainInt(given) || (IsTensor(given) && IsPlainTensor(given)))
    loop.given.push_back(PyRef::Share(given));
  if (!PyTuple_CheckExact(given)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    NoteGiven(loop, PyTuple_GET_ITEM(given, i));
  }
}

// The number of the round is an object of its own.
bool LoopWatch::GiveRound(PyObject** top) {
  Loop& loop = loops_[open_];
  const Span& span = loop.span;
  if (top == nullptr || *top == nullptr) return false;
  if (!span.gives_number && !span.gives_counted) {
    NoteGiven(loop, *top);
    return true;
  }
  PyObject* number = *top;
  if (span.gives_counted) {
    if (!PyTuple_CheckExact(*top) || PyTuple_GET_SIZE(*top) != 2) return false;
    number = PyTuple_GET_ITEM(*top, 0);
  }
  PyRef own = IsPlainInt(number) ? NewNumber(number) : PyRef();
  if (!own) return false;
  values_.AddRound(own.get(), open_, loop.rounds());
  if (span.gives_counted) {
    own = PyRef::Steal(
        PyTuple_Pack(2, own.get(), PyTuple_GET_ITEM(*top, 1)));
    if (!own) return false;
  }
  NoteGiven(loop, own.get());
  Py_SETREF(*top, own.release());
  return true;
}

// A tuple of what the one call of the step at hand gave.
void LoopWatch::NoteParts(PyObject* given) {
  if (!PyTuple_CheckExact(given) || PyTuple_GET_SIZE(given) < 2) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    PyObject* part = PyTuple_GET_ITEM(given, i);
    if (!IsTensor(part) || IsOld(part) || IsInput(part)) return;
  }
  if (parts_.try_emplace(given, static_cast<int32_t>(first_call_)).second) {
    pins_.push_back(PyRef::Share(given));
  }
}

void LoopWatch::AddSized(PyObject* container, int loop) {
  if (grew_.try_emplace(container, loop).second) {
    pins_.push_back(PyRef::Share(container));
  }
}

std::optional<LoopWatch::Span> LoopWatch::SpanOfContainer(
    PyObject* container) const {
  if (const auto it = parts_.find(container); it != parts_.end()) {
    return Span{.call = it->second, .count = PyTuple_GET_SIZE(container)};
  }
  const auto it = grew_.find(container);
  if (it == grew_.end() || it->second == open_) return std::nullopt;
  const Loop& loop = loops_[it->second];
  Span span = loop.span;
  // One of each round, counted from 0 on.
  if (!loop.is_closed || PySequence_Fast_GET_SIZE(container) != span.count) {
    return std::nullopt;
  }
  if (span.call < 0 &&
      (span.step != 1 || NumberOf(span.start.get()) != 0.0 ||
       values_.Find(span.start.get()) >= 0)) {
    return std::nullopt;
  }
  span.gives_number = span.gives_counted = false;
  return span;
}

std::optional<LoopWatch::Span> LoopWatch::SpanOf(PyObject* iterator) const {
  if (!PyIter_Check(iterator)) return SpanOfContainer(iterator);
  PyTypeObject* type = Py_TYPE(iterator);
  const bool counts = type == &PyEnum_Type;
  const bool is_pure = counts || type == &PyZip_Type ||
                       type == &PyReversed_Type || type == &PyListIter_Type ||
                       type == &PyTupleIter_Type ||
                       absl::string_view(type->tp_name) ==
                           "list_reverseiterator";
  if (!is_pure) return std::nullopt;
  std::optional<Span> found;
  for (const PyRef& held : HeldBy(iterator)) {
    // What enumerate() counts from, and the tuple that zip() gives.
    if (IsPlainInt(held.get()) && counts) {
      if (NumberOf(held.get()) != 0.0) return std::nullopt;
      continue;
    }
    if (type == &PyZip_Type && PyTuple_CheckExact(held.get()) &&
        !parts_.contains(held.get())) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(held.get()); ++i) {
        PyObject* item = PyTuple_GET_ITEM(held.get(), i);
        if (item == Py_None) continue;
        const std::optional<Span> one = SpanOf(item);
        if (!one.has_value() || one->gives_counted || one->gives_number ||
            (found.has_value() && found->count != one->count)) {
          return std::nullopt;
        }
        if (!found.has_value()) found = one;
      }
      continue;
    }
    if (counts && PyTuple_CheckExact(held.get()) &&
        !parts_.contains(held.get())) {
      continue;
    }
    const std::optional<Span> one = SpanOf(held.get());
    if (!one.has_value() || one->gives_counted || one->gives_number) {
      return std::nullopt;
    }
    if (found.has_value() && found->count != one->count) return std::nullopt;
    if (!found.has_value()) found = one;
  }
  if (found.has_value()) found->gives_counted = counts;
  return found;
}

void LoopWatch::Pin(const Span& span) {
  for (PyObject* number : {span.start.get(), span.stop.get()}) {
    const HostValues::Id id = number == nullptr ? -1 : values_.Find(number);
    if (id >= 0) values_.PinSize(id);
  }
}

// The loop that goes isn't followed.
void LoopWatch::Stop() {
  if (open_ >= 0) loops_[open_].is_followed = false;
}

void LoopWatch::EndOpen() {
  if (open_ >= 0) loops_[open_].is_closed = true;
  open_ = -1;
  mark_ = nullptr;
  grown_.clear();
  operand_sizes_.clear();
  changed_.clear();
  own_iterators_.clear();
}

bool LoopWatch::Advance(PyObject* iterator,
                        absl::Span<PyObject* const> variables,
                        absl::Span<PyObject* const> operands) {
  auto it = iterators_.find(iterator);
  if (it == iterators_.end() && !own_iterators_.contains(iterator)) {
    // In a round of another loop, lists of the run's are gone through as
    // others are.
    if (std::optional<Span> span = SpanOf(iterator)) {
      pins_.push_back(PyRef::Share(iterator));
      it = iterators_.emplace(iterator, *std::move(span)).first;
    }
  }
  if (it == iterators_.end()) {
    if (is_in_round() || !grew_.empty() || !parts_.empty()) Look(iterator);
    return false;
  }
  if (open_ >= 0 && loops_[open_].iterator.get() != iterator) {
    // Left before its end, if nobody else has its iterator: the map, the list
    // of what is kept, and the loop.
    constexpr Py_ssize_t kOwn = 2;
    if (Py_REFCNT(loops_[open_].iterator.get()) > kOwn) {
      Pin(it->second);  // A loop in another one.
      iterators_.erase(it);
      Look(iterator);
      own_iterators_.insert(iterator);
      return false;
    }
    Stop();
    EndOpen();
  }
  if (open_ < 0) {
    Loop loop{.iterator = PyRef::Share(iterator),
              .span = it->second,
              .at = CurrentUserLine().ToString()};
    open_ = static_cast<int>(loops_.size());
    loops_.push_back(std::move(loop));
  }
  Loop& loop = loops_[open_];
  BeginRound(loop, variables, operands);
  if (loop.rounds() == loop.span.count) {
    EndOpen();
    iterators_.erase(iterator);
  } else {
    gives_round_ = true;
  }
  return true;
}

void LoopWatch::FindFilled(absl::Span<PyObject* const> operands) {
  for (PyObject* operand : operands) {
    if (operand == nullptr || !PyList_CheckExact(operand)) continue;
    if (IsOld(operand) || IsInput(operand)) continue;
    const Py_ssize_t size = PyList_GET_SIZE(operand);
    const auto [it, is_new] = operand_sizes_.try_emplace(operand, size);
    if (!is_new && size > it->second && !grown_.contains(operand)) {
      grown_[operand] = it->second;
      AddSized(operand, open_);
    }
    it->second = size;
  }
}

void LoopWatch::BeginRound(Loop& loop, absl::Span<PyObject* const> variables,
                           absl::Span<PyObject* const> operands) {
  FindFilled(operands);
  RoundState state(values_, ages_, recorder_, grown_, loop.given, variables,
                   operands);
  loop.given.clear();
  for (const Use& use : uses_) {
    const bool grows = grown_.contains(use.list);
    const int64_t from = !use.is_round ? 0 : grows ? use.size : loop.rounds();
    state.Add(use.place - from);
  }
  uses_.clear();
  for (PyObject* container : changed_) {
    if (!state.Covers(container)) loop.is_followed = false;
  }
  changed_.clear();
  for (auto& [list, size] : grown_) size = PyList_GET_SIZE(list);
  if (!loop.calls.empty() && !(state == loop.state)) {
    loop.steady = static_cast<int32_t>(loop.calls.size());
  }
  loop.state = std::move(state);
  loop.calls.push_back(static_cast<int32_t>(recorder_.NumCalls()));
  loop.numbers.push_back(values_.num_sizes());
  loop.comparisons.push_back(values_.num_size_comparisons());
  own_iterators_.clear();
  mark_ = nullptr;
  mark_ = std::make_unique<AgeMark>();
}

bool LoopWatch::IsOlder(PyObject* object) {
  return mark_ == nullptr || mark_->Of(object) != AgeMark::Age::kYounger;
}

void LoopWatch::Change(PyObject* object) {
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
  static constexpr absl::string_view kNames[] = {
      "_version", "grad",      "_grad",     "grad_fn",         "_grad_fn",
      "_base",    "is_leaf",   "output_nr", "_backward_hooks", "retains_grad"};
  if (absl::c_linear_search(kNames, PyText(name))) Stop();
}

void LoopWatch::WriteItem(PyObject* container, PyObject* key) {
  if (!is_on_) return;
  if (grew_.contains(container)) {
    const Py_ssize_t size = PyList_GET_SIZE(container);
    const std::optional<double> place = NumberOf(key);
    const bool is_last = IsPlainInt(key) && values_.Find(key) < 0 &&
                         place.has_value() && *place < 0 && -*place <= size;
    if (!is_in_round() || !is_last) return LookAtOne(container);
    uses_.push_back(
        {.list = container, .place = static_cast<int64_t>(*place)});
  }
  if (!IsTensor(container)) Change(container);
}

bool LoopWatch::UseItem(PyObject* container, PyObject* key) {
  if (!is_on_) return false;
  if (grew_.contains(container) && IsWholeSlice(key)) {
    turned_ = container;
    return false;
  }
  const bool is_list =
      (PyList_CheckExact(container) || parts_.contains(container)) &&
      !IsOld(container) && !IsInput(container) && IsPlainInt(key);
  const HostValues::Id id = is_list ? values_.Find(key) : -1;
  const bool is_round =
      id >= 0 && values_.RoundOf(id) >= 0 && !values_.IsExact(id);
  if (!is_list || (id >= 0 && !(is_round && is_in_round()))) {
    Look(container);
    Look(key);
    return false;
  }
  const auto place = static_cast<int64_t>(NumberOf(key).value_or(0));
  if (is_in_round() && (is_round || IsSized(container))) {
    uses_.push_back({.list = container,
                     .place = place,
                     .size = PySequence_Fast_GET_SIZE(container),
                     .is_round = is_round});
  }
  return is_round;
}

void LoopWatch::LookAtOne(PyObject* object) {
  const auto it = grew_.find(object);
  if (it != grew_.end()) loops_[it->second].is_followed = false;
  const auto part = parts_.find(object);
  if (part != parts_.end()) fixed_parts_.insert(part->second);
}

void LoopWatch::Look(PyObject* object) {
  if (!is_on_ || object == nullptr) return;
  if (!is_in_round() && grew_.empty()) return;
  ForEachHeld(object, Through::kCode, [this](PyObject* held) {
    LookAtIterator(held);
    LookAtOne(held);
  });
}

// One that was there before the round gives something else in each.
void LoopWatch::LookAtIterator(PyObject* iterator) {
  if (is_in_round() && PyIter_Check(iterator) &&
      !own_iterators_.contains(iterator) && IsOlder(iterator)) {
    Stop();
  }
}

void LoopWatch::Call(PyObject* callable, absl::Span<PyObject* const> args) {
  if (!is_on_ || callable == nullptr) return;
  if (PyMethod_Check(callable)) {
    std::vector<PyObject*> all = {PyMethod_GET_SELF(callable)};
    all.insert(all.end(), args.begin(), args.end());
    return Call(PyMethod_GET_FUNCTION(callable), all);
  }
  if (IsLruCache(callable)) StopRound();
  const CallAnnotation* known = FindAnnotation(callable);
  if (is_in_round() && known != nullptr &&
      (MayDiffer(known->kind) || !known->read.empty() ||
       !known->changed.empty())) {
    Stop();
  }
  if (PyFunction_Check(callable) || JoinsTensors(callable)) return;
  if (MakesIterator(callable, args)) {
    for (PyObject* arg : args) {
      if (!IsSized(arg)) LookAtIterator(arg);
    }
    return;
  }
  const bool copies =
      callable == reinterpret_cast<PyObject*>(&PyList_Type) ||
      callable == reinterpret_cast<PyObject*>(&PyTuple_Type);
  if (copies && args.size() == 1 && grew_.contains(args[0])) {
    turned_ = args[0];
    return;
  }
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable)
                                               : nullptr;
  const bool has_self = self != nullptr && !PyModule_Check(self);
  PyObject* first = has_self ? self : args.empty() ? nullptr : args[0];
  if (first != nullptr && ChangesContainer(callable, first)) {
    const std::string name = LastPartOf(callable);
    const bool appends = name == "append" && PyList_CheckExact(first);
    if (appends && is_in_round() && IsOlder(first) && !IsOld(first) &&
        !IsInput(first)) {
      grown_.try_emplace(first, PyList_GET_SIZE(first));
      AddSized(first, open_);
    } else if (!appends && (name != "reverse" || is_in_round())) {
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

void LoopWatch::Finish() {
  if (!is_on_) return;
  if (open_ >= 0) {
    Stop();
    EndOpen();
  }
  for (Loop& loop : loops_) {
    // Two rounds that began alike tell that the others do.
    loop.is_followed &= loop.is_closed && loop.rounds() >= 2 &&
                        loop.rounds() == loop.span.count &&
                        loop.steady < loop.rounds() &&
                        !fixed_parts_.contains(loop.span.call);
    if (!loop.is_followed) Pin(loop.span);
  }
  // Those that no loop went through.
  for (const auto& [range, span] : ranges_) {
    const bool is_used = absl::c_any_of(loops_, [&](const Loop& loop) {
      return loop.span.gives_number && loop.span.stop.get() == span.stop.get() &&
             loop.span.start.get() == span.start.get();
    });
    if (!is_used) Pin(span);
  }
  for (const auto& [iterator, span] : iterators_) Pin(span);
}

void LoopWatch::AddTo(SizeFacts& facts) const {
  std::vector<int32_t> places(loops_.size(), -1);
  const auto operand_of = [this](const PyRef& number) {
    TapeHostOperand operand{.constant = NumberOf(number.get()).value_or(0)};
    const HostValues::Id id = values_.Find(number.get());
    if (id >= 0) operand.id = values_.IndexOfSize(id);
    return operand;
  };
  for (size_t i = 0; i < loops_.size(); ++i) {
    const Loop& loop = loops_[i];
    if (!loop.is_followed) continue;
    places[i] = static_cast<int32_t>(facts.loops.size());
    SizeFacts::Loop& made = facts.loops.emplace_back();
    made.call = loop.span.call;
    if (made.call < 0) {
      made.start = operand_of(loop.span.start);
      made.stop = operand_of(loop.span.stop);
      made.step = loop.span.step;
    }
    made.calls = loop.calls;
    made.steady = loop.steady;
    made.at = loop.at;
    for (int32_t round = 0; round < loop.rounds(); ++round) {
      made.numbers.push_back({loop.numbers[round], loop.numbers[round + 1]});
      made.comparisons.push_back(
          {loop.comparisons[round], loop.comparisons[round + 1]});
    }
  }
  for (SizeFacts::Number& number : facts.numbers) {
    if (number.loop < 0) continue;
    const Loop& loop = loops_[number.loop];
    const int32_t place = places[number.loop];
    if (place >= 0) {
      number.loop = place;
      continue;
    }
    // How often it goes stays as it is.
    double value = number.round;
    if (loop.span.call < 0) {
      value = NumberOf(loop.span.start.get()).value_or(0) +
              static_cast<double>(loop.span.step * number.round);
    }
    number = {.op = "mica.int_add",
              .operands = {{.constant = value}, {.constant = 0}}};
  }
}

}  // namespace mica
