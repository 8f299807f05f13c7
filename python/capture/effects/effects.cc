#include "python/capture/effects/effects.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/hit_code.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/call_with_names.h"

namespace mica {
namespace {

std::string Describe(absl::string_view what, const GuardNote& note) {
  return note.at.line == 0 ? absl::StrCat(what, " ", note.path)
                           : absl::StrCat(what, " ", note.path, " (",
                                          note.at.ToString(), ")");
}

bool Make(const HostCall& call) {
  return static_cast<bool>(
      CallWithNames(call.callable.get(), call.args, call.keyword_names.get()));
}

bool Add(const Increment& increment) {
  PyRef number = PyRef::Share(increment.place.Find());
  for (const PyRef& addend : increment.addends) {
    if (!number) return true;  // Removed by a call that was just made.
    number = PyRef::Steal(PyNumber_Add(number.get(), addend.get()));
    if (!number) return false;
  }
  return increment.place.Set(number.get());
}

}  // namespace

bool CompleteCalls(absl::Span<const PyRef> values, size_t next,
                   std::vector<HostCall>* calls) {
  for (HostCall& call : *calls) {
    size_t made = 0;
    for (PyRef& arg : call.args) {
      if (arg) continue;
      arg = values[next++];
      const PyRef& shown = call.shown[made++];
      if (!shown) continue;
      arg = PyRef::Steal(PyObject_CallOneArg(shown.get(), arg.get()));
      if (!arg) return false;
    }
  }
  return true;
}

bool ContainerCall::Make(PyObject* self, absl::Span<const PyRef> values) const {
  std::vector<PyObject*> all = {self};
  for (const PyRef& value : values) all.push_back(value.get());
  const PyRef result = PyRef::Steal(
      PyObject_Vectorcall(method.get(), all.data(), all.size(), nullptr));
  return static_cast<bool>(result);
}

Effects::Effects(std::vector<HostCall> calls, std::vector<Written> written,
                 std::vector<Increment> increments,
                 std::vector<ContainerCall> container_calls)
    : written_(std::move(written)),
      increments_(std::move(increments)),
      container_calls_(std::move(container_calls)) {
  for (HostCall& call : calls) {
    (call.is_last ? last_calls_ : first_calls_).push_back(std::move(call));
  }
  for (const Written& place : written_) num_values_ += !place.is_removed;
  for (ContainerCall& call : container_calls_) {
    call.args.clear();
    num_values_ += call.num_args;
  }
}

MICA_HIT_CODE bool Effects::Check(Miss* miss) const {
  for (const Increment& increment : increments_) {
    PyObject* now = increment.place.Find();
    PyObject* addend = increment.addends[0].get();
    if (now != nullptr && IsNumber(now) &&
        Py_TYPE(now) == Py_TYPE(increment.before.get())) {
      continue;
    }
    if (miss != nullptr) {
      *miss = {.kind = "state",
               .note = increment.place.note,
               .expected = absl::StrCat("a number to add ",
                                        DescribeValue(addend), " to"),
               .got = DescribeValue(now)};
    }
    return false;
  }
  for (const ContainerCall& call : container_calls_) {
    const Py_ssize_t now =
        call.length < 0 ? -1 : PyList_GET_SIZE(call.container.get());
    if (now == call.length) continue;
    if (miss != nullptr) {
      *miss = {.kind = "state",
               .note = call.note,
               .expected = absl::StrCat(call.length, " items"),
               .got = absl::StrCat(now, " items")};
    }
    return false;
  }
  for (const HostCall& call : first_calls_) {
    if (call.sink.RunsNoUserCode()) continue;
    if (miss != nullptr) {
      *miss = {.kind = "state",
               .note = call.note,
               .expected = "a call that runs no code of the user's",
               .got = "one that may"};
    }
    return false;
  }
  return true;
}

bool Effects::MakeFirstCalls(absl::Span<const PyRef> values, size_t* made,
                             std::vector<HostCall>* withheld) const {
  std::vector<HostCall> calls = first_calls_;
  if (!CompleteCalls(values, 0, &calls)) return false;
  if (withheld != nullptr) {
    *withheld = std::move(calls);
    return true;
  }
  // Caches come last: they don't raise, and should another call do so, the
  // run that follows asks them.
  for (const bool is_cache : {false, true}) {
    for (size_t i = 0; i < calls.size(); ++i) {
      if ((calls[i].sink.kind == Sink::Kind::kCache) != is_cache) continue;
      *made = i;
      if (!Make(calls[i])) return false;
    }
  }
  return true;
}

bool Effects::MakeLastCalls(absl::Span<const PyRef> values,
                            std::vector<HostCall>* withheld) const {
  std::vector<HostCall> calls = last_calls_;
  if (!CompleteCalls(values, num_values_, &calls)) return false;
  if (withheld != nullptr) {
    withheld->insert(withheld->end(), calls.begin(), calls.end());
    return true;
  }
  return std::all_of(calls.begin(), calls.end(), &Make);
}

bool Effects::Apply(absl::Span<const PyRef> values) const {
  for (const Written& written : written_) {
    if (written.is_moved && !written.place.Set(nullptr)) return false;
  }
  size_t next = 0;
  for (const Written& written : written_) {
    PyObject* value = written.is_removed ? nullptr : values[next++].get();
    if (!written.place.Set(value)) return false;
  }
  for (const Increment& increment : increments_) {
    if (!Add(increment)) return false;
  }
  for (const ContainerCall& call : container_calls_) {
    const auto own = values.subspan(next, call.num_args);
    if (!call.Make(call.container.get(), own)) return false;
    next += call.num_args;
  }
  return true;
}

void Effects::FindSlots(absl::FunctionRef<bool(PyObject*)> is_alive,
                        std::vector<StatePlace>* slots) const {
  for (const Written& written : written_) {
    if (!written.before || !is_alive(written.place.holder.get())) continue;
    PyObject* now = written.place.Find();
    PyObject* before = written.before.get() == Slots::Absent()
                           ? nullptr
                           : written.before.get();
    if (now == nullptr || SameValue(before, now)) continue;
    slots->push_back(written.place);
  }
  for (const Increment& increment : increments_) {
    if (increment.is_read && is_alive(increment.place.holder.get())) {
      slots->push_back(increment.place);
    }
  }
  for (const ContainerCall& call : container_calls_) {
    PyObject* container = call.container.get();
    if (call.adds_to_read && is_alive(container)) {
      slots->push_back(StatePlace::OfGrowing(container, call.note));
    }
  }
}

bool Effects::Changes(PyObject* container) const {
  return std::any_of(container_calls_.begin(), container_calls_.end(),
                     [container](const ContainerCall& call) {
                       return call.container.get() == container;
                     });
}

std::vector<StatePlace> Effects::places() const {
  std::vector<StatePlace> places;
  for (const Written& written : written_) places.push_back(written.place);
  for (const Increment& increment : increments_) {
    places.push_back(increment.place);
  }
  return places;
}

void Effects::LetGo(absl::FunctionRef<void(LooseRef*)> let_go) {
  for (Written& written : written_) let_go(&written.place.holder);
  for (Increment& increment : increments_) let_go(&increment.place.holder);
  for (ContainerCall& call : container_calls_) let_go(&call.container);
}

std::vector<LooseRef> Effects::containers() const {
  std::vector<LooseRef> containers;
  for (const ContainerCall& call : container_calls_) {
    containers.push_back(call.container);
  }
  return containers;
}

std::vector<std::string> Effects::ToText() const {
  std::vector<std::string> lines;
  for (const auto& calls : {first_calls_, last_calls_}) {
    for (const HostCall& call : calls) {
      lines.push_back(Describe("calls", call.note));
    }
  }
  for (const Written& written : written_) {
    lines.push_back(
        Describe(written.is_removed ? "removes" : "sets", written.place.note));
  }
  for (const Increment& increment : increments_) {
    lines.push_back(Describe("adds to", increment.place.note));
  }
  for (const ContainerCall& call : container_calls_) {
    lines.push_back(Describe("changes", call.note));
  }
  return lines;
}

int Effects::Traverse(visitproc visit, void* arg) const {
  for (const auto* calls : {&first_calls_, &last_calls_}) {
    for (const HostCall& call : *calls) {
      Py_VISIT(call.callable.get());
      for (const PyRef& object : call.args) Py_VISIT(object.get());
      for (const PyRef& object : call.shown) Py_VISIT(object.get());
      Py_VISIT(call.sink.target.get());
      Py_VISIT(call.sink.values.get());
    }
  }
  for (const Written& written : written_) {
    Py_VISIT(written.place.holder.held());
    Py_VISIT(written.place.key.get());
    Py_VISIT(written.before.get());
  }
  for (const Increment& increment : increments_) {
    Py_VISIT(increment.place.holder.held());
    Py_VISIT(increment.place.key.get());
  }
  for (const ContainerCall& call : container_calls_) {
    Py_VISIT(call.container.held());
  }
  return 0;
}

}  // namespace mica
