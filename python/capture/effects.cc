#include "python/capture/effects.h"

#include "absl/strings/str_cat.h"

namespace mica {

Effects::Effects(absl::Span<const WrittenItem> written,
                 absl::Span<PyObject* const> values) {
  for (size_t i = 0; i < written.size(); ++i) {
    items_.push_back({.at = written[i], .is_removed = values[i] == nullptr});
  }
}

bool Effects::Apply(absl::Span<const PyRef> values) const {
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
  for (const Item& item : items_) {
    lines.push_back(absl::StrCat(
        item.is_removed ? "removes " : "sets ", item.at.note.path,
        item.at.note.at.line == 0
            ? ""
            : absl::StrCat(" (", item.at.note.at.ToString(), ")")));
  }
  return lines;
}

int Effects::Traverse(visitproc visit, void* arg) const {
  for (const Item& item : items_) {
    Py_VISIT(item.at.dict.get());
    Py_VISIT(item.at.key.get());
  }
  return 0;
}

}  // namespace mica
