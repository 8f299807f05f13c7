// What loops go through.

#include <optional>
#include <utility>

#include "kernels/reference/host_arithmetic.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/loop_watch.h"
#include "python/capture/watch/object_kinds.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

bool LoopWatch::MakeRange(absl::Span<PyObject* const> args) {
  if (!is_on_ || args.empty() || args.size() > 3) return false;
  static PyObject* zero = PyLong_FromLong(0);
  Span span{.start = PyRef::Share(args.size() > 1 ? args[0] : zero),
            .stop = PyRef::Share(args[args.size() > 1 ? 1 : 0]),
            .gives_number = true};
  bool has_sizes = false;
  for (PyObject* number : {span.start.get(), span.stop.get()}) {
    if (number == nullptr || !PyLong_CheckExact(number)) return false;
    const HostValues::Id id = values_.Find(number);
    if (id >= 0 && !values_.IsSize(id)) return false;
    has_sizes |= id >= 0;
  }
  if (!has_sizes) return false;
  if (args.size() == 3) {
    if (!PyLong_CheckExact(args[2]) || values_.Find(args[2]) >= 0) return false;
    span.step = static_cast<int64_t>(NumberOf(args[2]).value_or(0));
    if (span.step == 0) return false;
  }
  made_range_ = std::make_unique<Span>(std::move(span));
  return true;
}

bool LoopWatch::ReverseRange(absl::Span<PyObject* const> args) {
  if (!is_on_ || args.size() != 1) return false;
  const auto it = ranges_.find(args[0]);
  if (it == ranges_.end()) return false;
  const Span& span = it->second;
  // The last number of a larger step isn't a sum.
  if (span.step != 1 && span.step != -1) return false;
  Span reversed = span;
  reversed.start = Moved(span.stop.get(), -span.step);
  reversed.stop = Moved(span.start.get(), -span.step);
  reversed.step = -span.step;
  if (!reversed.start || !reversed.stop) return false;
  made_iterator_ = std::make_unique<Span>(std::move(reversed));
  return true;
}

// Another number, which follows from this one.
PyRef LoopWatch::Moved(PyObject* number, int64_t by) {
  PyRef moved = NewInt(static_cast<int64_t>(NumberOf(number).value_or(0)) + by);
  const PyRef distance = NewInt(by);
  if (!moved || !distance || values_.Find(number) < 0) return moved;
  const bool is_known = values_.AddOp(moved.get(), *FindHostOp("mica.int_add"),
                                      {number, distance.get()});
  return is_known ? std::move(moved) : PyRef();
}

bool LoopWatch::MakeIterator(PyObject* object) {
  if (is_on_ && iterators_.contains(object)) return true;
  const auto it = ranges_.find(object);
  if (it == ranges_.end()) {
    // What an iterator goes through is known when it is asked.
    if (PyIter_Check(object)) {
      LookAtIterator(object);
    } else if (!IsSized(object)) {
      Look(object);
    }
    if (is_in_round()) iterates_ = object;
    return false;
  }
  made_iterator_ = std::make_unique<Span>(it->second);
  return true;
}

void LoopWatch::NoteGiven(Loop& loop, PyObject* given) {
  if (given == nullptr) return;
  if (PyLong_CheckExact(given) || (IsTensor(given) && IsPlainTensor(given)))
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
  PyRef own = PyLong_CheckExact(number) ? NewNumber(number) : PyRef();
  if (!own) return false;
  const auto first =
      static_cast<int64_t>(NumberOf(number).value_or(0)) - loop.rounds();
  if (span.gives_number || first == 0) {
    values_.AddRound(own.get(), open_, loop.rounds());
  } else {
    // enumerate() may begin anywhere.
    const PyRef round = NewInt(loop.rounds()), begin = NewInt(first);
    if (!round || !begin) return false;
    values_.AddRound(round.get(), open_, loop.rounds());
    if (!values_.AddOp(own.get(), *FindHostOp("mica.int_add"),
                       {round.get(), begin.get()})) {
      return false;
    }
  }
  if (span.gives_counted) {
    own = PyRef::Steal(PyTuple_Pack(2, own.get(), PyTuple_GET_ITEM(*top, 1)));
    if (!own) return false;
  }
  NoteGiven(loop, own.get());
  Py_SETREF(*top, own.release());
  return true;
}

// A tuple, or a list, of what the one call of the step at hand gave.
void LoopWatch::NoteParts(PyObject* given) {
  if ((!PyTuple_CheckExact(given) && !PyList_CheckExact(given)) ||
      PySequence_Fast_GET_SIZE(given) < 2) {
    return;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given); ++i) {
    PyObject* part = PySequence_Fast_GET_ITEM(given, i);
    if (!IsTensor(part) || IsOld(part) || IsInput(part)) return;
  }
  if (parts_.try_emplace(given, static_cast<int32_t>(first_call_)).second) {
    pins_.push_back(PyRef::Share(given));
  }
}

void LoopWatch::AddSized(PyObject* container, int loop) {
  const auto [it, is_new] = grew_.try_emplace(container, loop);
  if (is_new) {
    pins_.push_back(PyRef::Share(container));
  } else if (it->second != loop) {
    std::vector<int>& again = grew_again_[container];
    if (again.empty() || again.back() != loop) again.push_back(loop);
  }
}

std::optional<LoopWatch::Span> LoopWatch::SpanOfContainer(PyObject* container) {
  if (const auto it = parts_.find(container); it != parts_.end()) {
    return Span{.call = it->second,
                .count = PySequence_Fast_GET_SIZE(container)};
  }
  const auto it = grew_.find(container);
  if (it == grew_.end() || it->second == open_) return std::nullopt;
  const Loop& loop = loops_[it->second];
  Span span = loop.span;
  // One of each round, counted from 0 on.
  if (!loop.is_closed || PySequence_Fast_GET_SIZE(container) != span.count) {
    return std::nullopt;
  }
  if (span.call < 0) {
    const double start = NumberOf(span.start.get()).value_or(-1);
    if (span.step != 1 || values_.Find(span.start.get()) >= 0) {
      return std::nullopt;
    }
    if (start != 0) {
      span.stop = Moved(span.stop.get(), -static_cast<int64_t>(start));
      span.start = NewInt(0);
      if (!span.stop || !span.start) return std::nullopt;
    }
  }
  span.gives_number = span.gives_counted = false;
  return span;
}

std::optional<LoopWatch::Span> LoopWatch::SpanOf(PyObject* iterator) {
  PyTypeObject* type = Py_TYPE(iterator);
  const bool counts = type == &PyEnum_Type;
  const bool joins = counts || type == &PyZip_Type;
  if (!joins && type != &PyReversed_Type && type != &PyListIter_Type &&
      type != &PyTupleIter_Type && type != &PyListRevIter_Type) {
    return std::nullopt;
  }
  // Others hold what they give, too.
  std::vector<PyRef> sources;
  for (PyRef& held : HeldBy(iterator)) {
    if (!joins || PyIter_Check(held.get())) {
      sources.push_back(std::move(held));
    } else if (PyTuple_CheckExact(held.get())) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(held.get()); ++i) {
        PyObject* item = PyTuple_GET_ITEM(held.get(), i);
        if (PyIter_Check(item)) sources.push_back(PyRef::Share(item));
      }
    }
  }
  std::optional<Span> found;
  for (const PyRef& source : sources) {
    const std::optional<Span> one =
        joins ? SpanOf(source.get()) : SpanOfContainer(source.get());
    if (!one.has_value() || one->gives_counted ||
        (found.has_value() && found->count != one->count)) {
      return std::nullopt;
    }
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

}  // namespace mica
