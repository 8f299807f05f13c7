#include "python/capture/effects/argument_changes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/values/sequences.h"

namespace mica {
namespace {

using Keyed = InputGuards::Change::Keyed;

// Past the methods of a class made in Python, as the program's own changes
// have gone through them.
bool PutKeyed(const Keyed& keyed, PyObject* dict,
              absl::Span<const PyRef> values) {
  const bool is_ordered = PyODict_Check(dict);
  for (const PyRef& key : keyed.removed) {
    const int failed = is_ordered ? PyODict_DelItem(dict, key.get())
                                  : PyDict_DelItem(dict, key.get());
    if (failed != 0) return false;
  }
  for (size_t i = 0; i < keyed.set.size(); ++i) {
    PyObject* key = keyed.set[i].get();
    const int failed = is_ordered ? PyODict_SetItem(dict, key, values[i].get())
                                  : PyDict_SetItem(dict, key, values[i].get());
    if (failed != 0) return false;
  }
  return true;
}

bool IsEmpty(const Keyed& keyed) {
  return keyed.removed.empty() && keyed.set.empty();
}

}  // namespace

ArgumentChanges::ArgumentChanges(std::vector<InputGuards::Change> changes,
                                 std::vector<PyObject*>* left)
    : changes_(std::move(changes)) {
  for (InputGuards::Change& change : changes_) {
    for (Keyed* keyed : {&change.items, &change.attributes}) {
      num_values_ += keyed->values.size();
      left->insert(left->end(), keyed->values.begin(), keyed->values.end());
      // Only their number is of use from now on.
      for (PyObject*& value : keyed->values) value = nullptr;
    }
  }
}

bool ArgumentChanges::Apply(const BoundInputs& inputs,
                            absl::Span<const PyRef> values) const {
  size_t next = values.size() - num_values_;
  const auto take = [&](const Keyed& keyed) {
    next += keyed.values.size();
    return values.subspan(next - keyed.values.size(), keyed.values.size());
  };
  for (const InputGuards::Change& change : changes_) {
    PyObject* object = inputs.objects[change.node];
    const auto items = take(change.items);
    const bool is_put =
        PyList_Check(object) || IsDeque(object)
            ? PutItems(object, items)
            : IsEmpty(change.items) || PutKeyed(change.items, object, items);
    if (!is_put) return false;
    const auto attributes = take(change.attributes);
    if (IsEmpty(change.attributes)) continue;
    const PyRef dict = PyRef::Steal(PyObject_GenericGetDict(object, nullptr));
    if (!dict || !PutKeyed(change.attributes, dict.get(), attributes)) {
      return false;
    }
  }
  return true;
}

std::vector<std::string> ArgumentChanges::ToText() const {
  std::vector<std::string> lines;
  for (const InputGuards::Change& change : changes_) {
    lines.push_back(absl::StrCat("changes ", change.path));
  }
  return lines;
}

int ArgumentChanges::Traverse(visitproc visit, void* arg) const {
  for (const InputGuards::Change& change : changes_) {
    for (const Keyed* keyed : {&change.items, &change.attributes}) {
      for (const PyRef& key : keyed->removed) Py_VISIT(key.get());
      for (const PyRef& key : keyed->set) Py_VISIT(key.get());
    }
  }
  return 0;
}

}  // namespace mica
