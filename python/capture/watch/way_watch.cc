#include "python/capture/watch/way_watch.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/held.h"
#include "python/capture/watch/call_facts.h"
#include "python/capture/watch/object_kinds.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// More than this nobody waits for.
constexpr size_t kMaxForks = 1000;

// Asks where an item is, or whether, and takes one that is the same for equal.
bool FindsItem(PyObject* callable, PyObject* container) {
  if (!PyList_Check(container) && !PyTuple_Check(container)) return false;
  const std::string name = CallableName(callable);
  static constexpr absl::string_view kNames[] = {"index", "count", "remove",
                                                 "__contains__"};
  return absl::c_linear_search(kNames, name.substr(name.rfind('.') + 1));
}

}  // namespace

void WayWatch::Stop(const char* why) {
  if (unknown_.empty()) unknown_ = why;
}

void WayWatch::EndStep(PyObject* result, size_t num_reads, int32_t last_read) {
  if (std::exchange(makes_iterator_, false) && result != nullptr &&
      PyIter_Check(result)) {
    iterators_[result] = num_forks();
  }
  if (!unknown_.empty()) return;
  if (num_reads > num_reads_ + 1) Stop("reads several values in one step");
  if (num_reads > num_reads_) {
    num_reads_ = num_reads;
    forks_.push_back({.calls = last_read + 1, .read = last_read});
  }
  while (num_comparisons_ < values_.num_comparisons()) {
    forks_.push_back({.calls = static_cast<int32_t>(recorder_.NumCalls()),
                      .comparison = num_comparisons_++});
  }
  while (marks_.size() < forks_.size()) {
    marks_.push_back(std::make_unique<AgeMark>());
  }
  if (forks_.size() > kMaxForks) Stop("reads very many values");
}

int64_t WayWatch::TakeForks(int64_t num_before) {
  const int64_t since = std::max(told_, num_before);
  told_ = num_forks();
  return since < num_forks() && unknown_.empty() ? since : -1;
}

void WayWatch::Join(int64_t since, absl::Span<PyObject* const> variables,
                    absl::Span<PyObject* const> operands) {
  if (!unknown_.empty() || last_other_ > since) return;
  WayEvent event{.kind = WayEvent::Kind::kJoin,
                 .calls = static_cast<int32_t>(recorder_.NumCalls())};
  MeetingState state{.own = RoundState(values_, ages_, recorder_, name_of_,
                                       variables, operands, &event.tensors),
                     .torch = TorchState::Current()};
  for (const Changed& change : changes_) {
    if (change.num_forks > since && change.made <= since &&
        !state.own.Covers(change.object)) {
      return;
    }
  }
  event.state = static_cast<int32_t>(states_.size());
  states_.push_back(std::move(state));
  meetings_.push_back(
      {.since = since, .num_forks = num_forks(), .event = std::move(event)});
}

void WayWatch::NoteChange(PyObject* object) {
  if (object == nullptr || IsTensor(object)) return;
  changes_.push_back({.object = object,
                      .num_forks = num_forks(),
                      .made = ForksBefore(object)});
}

int64_t WayWatch::ForksBefore(PyObject* object) const {
  if (const auto it = iterators_.find(object); it != iterators_.end()) {
    return it->second;
  }
  // What is changed was mostly made a moment ago.
  constexpr int64_t kLooks = 8;
  const int64_t count = num_forks();
  for (int64_t i = count; i > std::max(count - kLooks, int64_t{0}); --i) {
    if (marks_[i - 1]->Of(object) == AgeMark::Age::kYounger) return i;
  }
  return 0;
}

void WayWatch::ChangeAttribute(PyObject* owner) {
  if (owner != nullptr && IsTensor(owner)) return ChangeOther();
  Change(owner);
}

void WayWatch::LookInto(PyObject* object) {
  if (object == nullptr) return;
  ForEachHeld(object, Through::kCode, [this](PyObject* held) {
    if (PyIter_Check(held)) NoteChange(held);
  });
}

// What may differ between tensors that count for the same.
void WayWatch::ReadAttribute(PyObject* owner, PyObject* name) {
  if (forks_.empty() || !IsTensor(owner) || !PyUnicode_Check(name)) return;
  if (TellsMoreThanSizes(name)) Stop("asks more of a tensor than its sizes");
}

void WayWatch::Compare(PyObject* a, PyObject* b) {
  if (!forks_.empty() && IsTensor(a) && IsTensor(b)) {
    Stop("asks whether two tensors are one");
  }
}

void WayWatch::Find(PyObject* item) {
  if (!forks_.empty() && IsTensor(item)) {
    Stop("looks for a tensor in a container");
  }
}

void WayWatch::Call(PyObject* callable, absl::Span<PyObject* const> args) {
  if (forks_.empty() || callable == nullptr) return;
  if (PyMethod_Check(callable)) {
    std::vector<PyObject*> all = {PyMethod_GET_SELF(callable)};
    all.insert(all.end(), args.begin(), args.end());
    return Call(PyMethod_GET_FUNCTION(callable), all);
  }
  if (MayDiffer(callable)) ChangeOther();
  if (PyFunction_Check(callable)) return;
  if (MakesIterator(callable, args)) return MakeIterator();
  PyObject* self =
      PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  const bool has_self = self != nullptr && !PyModule_Check(self);
  PyObject* first = has_self ? self : args.empty() ? nullptr : args[0];
  if (first != nullptr && ChangesContainer(callable, first)) Change(first);
  if (first != nullptr && FindsItem(callable, first)) {
    for (PyObject* arg : args) Find(arg);
  }
  if (!PyCFunction_Check(callable) && !PyType_Check(callable) &&
      IsPythonClass(Py_TYPE(callable))) {
    return;  // Its __call__ is followed.
  }
  if (AsksIdentity(callable)) Stop("asks whether two tensors are one");
  if (self != nullptr) Look(self);
  for (PyObject* arg : args) Look(arg);
}

RunWays WayWatch::Finish(absl::Span<const HostValues::Comparison> comparisons,
                         absl::Span<const TapeHostRead> reads, int32_t first) {
  RunWays ways{.states = std::move(states_), .unknown = std::move(unknown_)};
  absl::flat_hash_map<int32_t, int32_t> calls;
  for (size_t i = 0; i < comparisons.size(); ++i) {
    calls[comparisons[i].number] = first + static_cast<int32_t>(i);
  }
  size_t num_found = 0;
  std::vector<int32_t> numbers;  // Of the forks that are left, by fork.
  int32_t num_left = 0;
  size_t meeting = 0;
  const auto add_meetings = [&](int64_t num_forks) {
    for (; meeting < meetings_.size() &&
           meetings_[meeting].num_forks <= num_forks;
         ++meeting) {
      WayEvent& event = meetings_[meeting].event;
      event.since = numbers[meetings_[meeting].since];
      ways.events.push_back(std::move(event));
    }
  };
  for (size_t i = 0; i < forks_.size(); ++i) {
    numbers.push_back(num_left);
    WayEvent event{.calls = forks_[i].calls};
    // Numbers that are followed are no forks.
    if (absl::c_any_of(reads, [&](const TapeHostRead& read) {
          return read.call == forks_[i].read;
        })) {
      event.asked = forks_[i].read;
    }
    if (forks_[i].read < 0) {
      const auto it = calls.find(forks_[i].comparison);
      if (it != calls.end()) {
        event.asked = it->second;
        ++num_found;
      }
    }
    if (event.asked >= 0) {
      ways.events.push_back(event);
      ++num_left;
    }
    add_meetings(static_cast<int64_t>(i) + 1);
  }
  if (num_found < calls.size()) ways.unknown = "compares numbers unseen";
  return ways;
}

}  // namespace mica
