#include "python/capture/watch/loop_watch.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "python/capture/values/numbers.h"

namespace mica {

void LoopWatch::BeginStep() {
  if (!is_on_) return;
  made_range_ = nullptr;
  made_iterator_ = nullptr;
  gives_round_ = false;
  iterates_ = nullptr;
  turned_ = nullptr;
  extended_ = nullptr;
  repeats_ = -1;
  first_call_ = recorder_.NumCalls();
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
    if (const auto again = grew_again_.find(turned_);
        again != grew_again_.end()) {
      const std::vector<int> loops = again->second;
      for (const int loop : loops) AddSized(given, loop);
    }
  }
  if (repeats_ >= 0) {
    if (given == nullptr || !PyList_CheckExact(given)) {
      return values_.PinSize(repeats_);
    }
    pins_.push_back(PyRef::Share(given));
    repeated_[given] = repeats_;
  } else if (made_range_ != nullptr) {
    if (given == nullptr || !PyRange_Check(given)) return Pin(*made_range_);
    made_range_->count = PySequence_Size(given);
    made_range_->range = given;
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

// Whether nobody else has the iterator: the list of what is kept, and the loop.
bool LoopWatch::IsOpenAlone() const {
  constexpr Py_ssize_t kOwn = 2;
  return Py_REFCNT(loops_[open_].iterator.get()) <= kOwn;
}

// The loop is left before its end. The rounds of a range that it made come
// again where the range is as long or longer.
void LoopWatch::LeaveOpen() {
  Loop& loop = loops_[open_];
  const Span& span = loop.span;
  if (loop.number < 0 && span.gives_number && span.call < 0 && IsOpenAlone() &&
      values_.Find(span.start.get()) < 0) {
    const auto start =
        static_cast<int64_t>(NumberOf(span.start.get()).value_or(0));
    const PyRef last = NewInt(start + loop.rounds() * span.step);
    PyObject* stop = span.stop.get();
    loop.is_left =
        last &&
        (span.step > 0 ? values_.AddComparison("mica.scalar_lt", last.get(),
                                               stop, CurrentUserLine())
                       : values_.AddComparison("mica.scalar_lt", stop,
                                               last.get(), CurrentUserLine()));
    if (loop.is_left) iterators_.erase(loop.iterator.get());
  }
  Stop();
  EndOpen();
}

bool LoopWatch::Advance(PyObject* iterator, absl::Span<PyObject*> variables,
                        absl::Span<PyObject* const> operands,
                        absl::Span<PyObject* const> generators) {
  if (is_on_ && PyGen_CheckExact(iterator)) {
    const bool is_of_open =
        open_ >= 0 && absl::c_linear_search(loops_[open_].generators, iterator);
    if (!is_of_open) LookAtIterator(iterator);
    return false;
  }
  auto it = iterators_.find(iterator);
  const bool is_in_while = open_ >= 0 && loops_[open_].number >= 0;
  if (it == iterators_.end() &&
      (is_in_while || !own_iterators_.contains(iterator))) {
    // In a round of another loop, lists of the run's are gone through as
    // others are.
    if (std::optional<Span> span = SpanOf(iterator)) {
      pins_.push_back(PyRef::Share(iterator));
      it = iterators_.emplace(iterator, *std::move(span)).first;
    }
  }
  if (it == iterators_.end()) {
    Look(iterator);
    return false;
  }
  // Which of the two is over sizes, isn't known yet of the other one.
  if (is_in_while) GiveUp();
  if (open_ >= 0 && loops_[open_].iterator.get() != iterator) {
    if (!IsOpenAlone()) {
      Pin(it->second);  // A loop in another one.
      iterators_.erase(it);
      Look(iterator);
      own_iterators_.insert(iterator);
      return false;
    }
    LeaveOpen();
  }
  if (open_ < 0) {
    Loop loop{.iterator = PyRef::Share(iterator),
              .generators = {generators.begin(), generators.end()},
              .span = it->second,
              .at = CurrentUserLine().ToString()};
    open_ = static_cast<int>(loops_.size());
    loops_.push_back(std::move(loop));
  }
  Loop& loop = loops_[open_];
  loop.is_followed &= loop.generators == generators;
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
      grown_[operand] = {.size = it->second};
      AddSized(operand, open_);
    }
    it->second = size;
  }
}

void LoopWatch::BeginRound(Loop& loop, absl::Span<PyObject*> variables,
                           absl::Span<PyObject* const> operands) {
  FindFilled(operands);
  FollowCounters(loop, variables);
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
  for (auto& [list, grown] : grown_) grown.size = PyList_GET_SIZE(list);
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

void LoopWatch::Finish() {
  if (!is_on_) return;
  if (open_ >= 0) LeaveOpen();
  for (Loop& loop : loops_) {
    // Two rounds that began alike tell that the others do.
    loop.is_followed &=
        loop.is_closed && loop.rounds() >= 2 &&
        (loop.number >= 0 || loop.rounds() == loop.span.count) &&
        loop.steady < loop.rounds() && !fixed_parts_.contains(loop.span.call);
    if (!loop.is_followed && !loop.is_left) Pin(loop.span);
  }
  // Those that no loop went through.
  for (const auto& [range, span] : ranges_) {
    const bool is_used = absl::c_any_of(loops_, [&](const Loop& loop) {
      return loop.span.range == range ||
             (loop.span.gives_number &&
              loop.span.stop.get() == span.stop.get() &&
              loop.span.start.get() == span.start.get());
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
    if (loop.number >= 0) {
      for (auto [to, from] : {std::pair(&made.start, &loop.start),
                              std::pair(&made.stop, &loop.stop)}) {
        *to = *from;
        if (from->id >= 0) to->id = values_.IndexOfSize(from->id);
      }
      made.step = loop.step;
    } else if (made.call < 0) {
      made.start = operand_of(loop.span.start);
      made.stop = operand_of(loop.span.stop);
      made.step = loop.span.step;
    }
    made.calls = loop.calls;
    made.steady = loop.steady;
    made.at = loop.at;
    // A condition belongs to the round that it leads to.
    const int32_t before = loop.number >= 0 ? 1 : 0;
    for (int32_t round = 0; round < loop.rounds(); ++round) {
      made.numbers.push_back({loop.numbers[round], loop.numbers[round + 1]});
      made.comparisons.push_back({loop.comparisons[round] - before,
                                  loop.comparisons[round + 1] - before});
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
