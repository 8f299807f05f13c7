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

// A call that does something outside of Python's objects.
struct HostCall {
  PyRef callable;
  // As the run passed them; null for those that are made again at each hit.
  std::vector<PyRef> args;
  PyRef keyword_names;  // Of the last arguments; may be null.
  GuardNote note;
};

// Puts `values`, from the `next`-th on, where arguments are null.
void CompleteCalls(absl::Span<const PyRef> values, size_t next,
                   std::vector<HostCall>* calls);

// The calls of a run into the world outside, in order, then the items that it
// leaves changed, in the order in which they were first
// written. Values are the run's own; they are made again at each hit, then
// Apply() puts them where they belong. Immutable once built.
//
// Its values: one for each item that isn't removed, then one for each null
// argument of a call, all in order.
class Effects {
 public:
  // `values`, one for each item of `written`: as the run left them; null where
  // it left none.
  Effects() = default;
  Effects(std::vector<HostCall> calls, absl::Span<const WrittenItem> written,
          absl::Span<PyObject* const> values);

  // Makes the calls, puts `values` under their keys, and removes the items that
  // the run removed. False, with a Python error set, if a call raises or there
  // is no memory. If `withheld` is given, it gets the calls, complete, and they
  // aren't made.
  bool Apply(absl::Span<const PyRef> values,
             std::vector<HostCall>* withheld = nullptr) const;

  // "sets self.attn (model.py:12)" each.
  std::vector<std::string> ToText() const;
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  friend class RecordDescriber;
  struct Item {
    WrittenItem at;
    bool is_removed = false;
  };
  std::vector<HostCall> calls_;
  std::vector<Item> items_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_EFFECTS_H_
