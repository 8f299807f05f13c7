// Loops that go on a condition, and ints that rounds count.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "python/capture/values/numbers.h"
#include "python/capture/watch/loop_watch.h"

namespace mica {

void LoopWatch::GiveUp() {
  given_up_.insert(loops_[open_].number);
  Stop();
  EndOpen();
}

void LoopWatch::BeginRound(int64_t number, absl::Span<PyObject*> variables,
                           absl::Span<PyObject* const> operands) {
  if (!is_on_) return values_.MarkCountedInts(conditions_[number]);
  if (given_up_.contains(number)) return;
  if (open_ < 0) {
    open_ = static_cast<int>(loops_.size());
    loops_.push_back({.number = number,
                      .other_comparisons = values_.num_comparisons(),
                      .at = CurrentUserLine().ToString()});
  }
  Loop& loop = loops_[open_];
  if (loop.number != number) {
    given_up_.insert(number);  // In a round of another loop.
    return;
  }
  // It goes by something else: where that is an int that was given, the next
  // run may take that for a size.
  if (!loop.calls.empty() &&
      values_.num_size_comparisons() == loop.comparisons.back()) {
    values_.MarkGivenInts(loop.other_comparisons);
    return GiveUp();
  }
  BeginRound(loop, variables, operands);
}

void LoopWatch::LeaveLoop(int64_t number, bool by_condition,
                          absl::Span<PyObject*> variables,
                          absl::Span<PyObject* const> operands) {
  if (!is_on_ || open_ < 0 || loops_[open_].number != number) return;
  if (!by_condition ||
      values_.num_size_comparisons() == loops_[open_].comparisons.back()) {
    return GiveUp();
  }
  BeginRound(loops_[open_], variables, operands);
  loops_[open_].is_followed &= FindSpan(loops_[open_]);
  EndOpen();
}

bool LoopWatch::FindSpan(Loop& loop) const {
  // The condition is what comes last in each round, and first of all.
  const int32_t rounds = loop.rounds();
  if (rounds < 2 || loop.comparisons[0] == 0) return false;
  const auto& first = values_.size_comparison(loop.comparisons[0] - 1);
  const auto& before =
      values_.size_comparison(loop.comparisons[rounds - 1] - 1);
  const auto& last = values_.size_comparison(loop.comparisons[rounds] - 1);
  if (first.op != last.op || before.op != last.op ||
      first.outcome == last.outcome || before.outcome != first.outcome) {
    return false;
  }
  const bool is_a = before.a.constant != last.a.constant;
  if (is_a == (before.b.constant != last.b.constant)) return false;
  const auto moving = [is_a](const HostValues::Comparison& comparison) {
    return is_a ? comparison.a : comparison.b;
  };
  loop.start = moving(first);
  loop.stop = is_a ? first.b : first.a;
  const double step = moving(last).constant - moving(before).constant;
  if (moving(last).constant - loop.start.constant != step * rounds ||
      (loop.start.id < 0 && loop.stop.id < 0)) {
    return false;
  }
  for (const TapeHostOperand& number : {loop.start, loop.stop}) {
    if (number.id >= 0 && !values_.is_int(number.id)) return false;
  }
  loop.step = static_cast<int64_t>(step);
  // It goes on while the number is below (or beyond) the other one, or as far
  // as that.
  const bool is_equal = first.op == "mica.scalar_eq";
  if (is_equal && (first.outcome || (step != 1 && step != -1))) return false;
  const bool is_up = is_a == first.outcome;
  if (!is_equal && is_up != (step > 0)) return false;
  const bool is_inclusive =
      !is_equal && (first.op == "mica.scalar_le") == first.outcome;
  if (!is_inclusive) return true;
  TapeHostOperand& constant = loop.stop.id < 0 ? loop.stop : loop.start;
  if (constant.id >= 0) return false;
  constant.constant += (step > 0) == (&constant == &loop.stop) ? 1 : -1;
  return true;
}

void LoopWatch::FollowCounters(Loop& loop, absl::Span<PyObject*> variables) {
  const auto is_plain = [this](PyObject* object) {
    return object != nullptr && PyLong_CheckExact(object) &&
           NumberOf(object).has_value() && values_.Find(object) < 0;
  };
  if (loop.calls.empty()) {
    for (PyObject* variable : variables) {
      loop.ints.push_back(is_plain(variable) ? PyRef::Share(variable)
                                             : PyRef());
    }
    return;
  }
  if (loop.calls.size() > 1) return;
  for (size_t i = 0; i < std::min(loop.ints.size(), variables.size()); ++i) {
    PyObject* was = loop.ints[i].get();
    if (was == nullptr || !is_plain(variables[i]) ||
        NumberOf(was) == NumberOf(variables[i])) {
      continue;
    }
    PyRef own = NewNumber(variables[i]);
    if (!own) {
      PyErr_Clear();
      return;
    }
    values_.AddCounter(own.get());
    Py_SETREF(variables[i], own.release());
  }
  loop.ints.clear();
}

}  // namespace mica
