#include "python/capture/effects.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "python/capture/constants.h"
#include "python/capture/numbers.h"

namespace mica {
namespace {

std::string Describe(absl::string_view what, const GuardNote& note) {
  return note.at.line == 0 ? absl::StrCat(what, " ", note.path)
                           : absl::StrCat(what, " ", note.path, " (",
                                          note.at.ToString(), ")");
}

bool Make(const HostCall& call) {
  std::vector<PyObject*> args;
  for (const PyRef& arg : call.args) args.push_back(arg.get());
  const Py_ssize_t num_keywords =
      call.keyword_names ? PyTuple_GET_SIZE(call.keyword_names.get()) : 0;
  const PyRef result = PyRef::Steal(PyObject_Vectorcall(
      call.callable.get(), args.data(), args.size() - num_keywords,
      call.keyword_names.get()));
  return static_cast<bool>(result);
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

void CompleteCalls(absl::Span<const PyRef> values, size_t next,
                   std::vector<HostCall>* calls) {
  for (HostCall& call : *calls) {
    for (PyRef& arg : call.args) {
      if (!arg) arg = values[next++];
    }
  }
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
    : calls_(std::move(calls)),
      written_(std::move(written)),
      increments_(std::move(increments)),
      container_calls_(std::move(container_calls)) {
  for (const Written& place : written_) num_values_ += !place.is_removed;
  for (ContainerCall& call : container_calls_) {
    call.args.clear();
    num_values_ += call.num_args;
  }
}

bool Effects::Check(Miss* miss) const {
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
  return true;
}

bool Effects::Apply(absl::Span<const PyRef> values,
                    std::vector<HostCall>* withheld) const {
  if (!calls_.empty()) {
    std::vector<HostCall> calls = calls_;
    CompleteCalls(values, num_values_, &calls);
    if (withheld != nullptr) {
      *withheld = std::move(calls);
    } else if (!std::all_of(calls.begin(), calls.end(), &Make)) {
      return false;
    }
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

void Effects::FindSlots(std::vector<StatePlace>* slots) const {
  for (const Written& written : written_) {
    if (!written.before) continue;
    PyObject* now = written.place.Find();
    PyObject* before = written.before.get() == Slots::Absent()
                           ? nullptr
                           : written.before.get();
    if (now == nullptr || SameValue(before, now)) continue;
    slots->push_back(written.place);
  }
  for (const Increment& increment : increments_) {
    if (increment.is_read) slots->push_back(increment.place);
  }
}

std::vector<StatePlace> Effects::places() const {
  std::vector<StatePlace> places;
  for (const Written& written : written_) places.push_back(written.place);
  for (const Increment& increment : increments_) {
    places.push_back(increment.place);
  }
  return places;
}

std::vector<PyRef> Effects::containers() const {
  std::vector<PyRef> containers;
  for (const ContainerCall& call : container_calls_) {
    containers.push_back(call.container);
  }
  return containers;
}

std::vector<std::string> Effects::ToText() const {
  std::vector<std::string> lines;
  for (const HostCall& call : calls_) {
    lines.push_back(Describe("calls", call.note));
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
  for (const HostCall& call : calls_) {
    Py_VISIT(call.callable.get());
    for (const PyRef& object : call.args) Py_VISIT(object.get());
  }
  for (const Written& written : written_) {
    Py_VISIT(written.place.holder.get());
    Py_VISIT(written.place.key.get());
    Py_VISIT(written.before.get());
  }
  for (const Increment& increment : increments_) {
    Py_VISIT(increment.place.holder.get());
    Py_VISIT(increment.place.key.get());
  }
  for (const ContainerCall& call : container_calls_) {
    Py_VISIT(call.container.get());
  }
  return 0;
}

}  // namespace mica
