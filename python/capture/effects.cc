#include "python/capture/effects.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

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

}  // namespace

void CompleteCalls(absl::Span<const PyRef> values, size_t next,
                   std::vector<HostCall>* calls) {
  for (HostCall& call : *calls) {
    for (PyRef& arg : call.args) {
      if (!arg) arg = values[next++];
    }
  }
}

Effects::Effects(std::vector<HostCall> calls,
                 absl::Span<const WrittenItem> written,
                 absl::Span<PyObject* const> values)
    : calls_(std::move(calls)) {
  for (size_t i = 0; i < written.size(); ++i) {
    items_.push_back({.at = written[i], .is_removed = values[i] == nullptr});
  }
}

bool Effects::Apply(absl::Span<const PyRef> values,
                    std::vector<HostCall>* withheld) const {
  if (!calls_.empty()) {
    std::vector<HostCall> calls = calls_;
    const auto num_items =
        std::count_if(items_.begin(), items_.end(),
                      [](const Item& item) { return !item.is_removed; });
    CompleteCalls(values, static_cast<size_t>(num_items), &calls);
    if (withheld != nullptr) {
      *withheld = std::move(calls);
    } else if (!std::all_of(calls.begin(), calls.end(), &Make)) {
      return false;
    }
  }
  size_t next = 0;
  for (const Item& item : items_) {
    PyObject* dict = item.at.dict.get();
    PyObject* key = item.at.key.get();
    if (!item.is_removed) {
      if (PyDict_SetItem(dict, key, values[next++].get()) != 0) return false;
      continue;
    }
    const int has = PyDict_Contains(dict, key);
    if (has < 0 || (has > 0 && PyDict_DelItem(dict, key) != 0)) return false;
  }
  return true;
}

std::vector<std::string> Effects::ToText() const {
  std::vector<std::string> lines;
  for (const HostCall& call : calls_) {
    lines.push_back(Describe("calls", call.note));
  }
  for (const Item& item : items_) {
    lines.push_back(
        Describe(item.is_removed ? "removes" : "sets", item.at.note));
  }
  return lines;
}

int Effects::Traverse(visitproc visit, void* arg) const {
  for (const HostCall& call : calls_) {
    Py_VISIT(call.callable.get());
    for (const PyRef& object : call.args) Py_VISIT(object.get());
  }
  for (const Item& item : items_) {
    Py_VISIT(item.at.dict.get());
    Py_VISIT(item.at.key.get());
  }
  return 0;
}

}  // namespace mica
