// What a program leaves behind in Python's state.

#ifndef MICA_PYTHON_CAPTURE_EFFECTS_H_
#define MICA_PYTHON_CAPTURE_EFFECTS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "python/capture/guard_note.h"
#include "python/capture/py_ref.h"

namespace mica {

// An item of an older dict (an object's attributes, a module's globals, a
// plain dict) that the program wrote and had not read before.
struct WrittenItem {
  PyRef dict;
  PyRef key;  // An interned str.
  GuardNote note;
};

// The items that a run leaves changed, in the order in which they were first
// written. Values are the run's own; they are made again at each hit, then
// Apply() puts them where they belong. Immutable once built.
class Effects {
 public:
  // `values`, one for each item of `written`: as the run left them; null where
  // it left none.
  Effects() = default;
  Effects(absl::Span<const WrittenItem> written,
          absl::Span<PyObject* const> values);

  // Puts `values`, in the order of kept(), under their keys, and removes the
  // items that the run removed. False, with a Python error set, if there is no
  // memory.
  bool Apply(absl::Span<const PyRef> values) const;

  bool empty() const { return items_.empty(); }
  // "self.attn (model.py:12)" each.
  std::vector<std::string> ToText() const;
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  struct Item {
    WrittenItem at;
    bool is_removed = false;
  };
  std::vector<Item> items_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_EFFECTS_H_
