// What a program leaves behind in Python's state.

#ifndef MICA_PYTHON_CAPTURE_EFFECTS_H_
#define MICA_PYTHON_CAPTURE_EFFECTS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "python/capture/guard_note.h"
#include "python/capture/places.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// A place that the program set, at the value that it has after the run.
struct Written {
  StatePlace place;
  bool is_removed = false;
  // What it read there first, by which the record is guarded; null if it read
  // nothing.
  PyRef before;
};

// A number that the program only adds constants to: no guard asks for it.
struct Increment {
  StatePlace place;
  std::vector<PyRef> addends;  // In order.
  PyRef before;                // While recording.
  bool is_read = false;        // By the program otherwise, too: it is guarded.
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

// A method that changes an older container, of which the program had read
// nothing: `method(container, args…)`. Arguments are the run's own.
struct ContainerCall {
  PyRef method;
  PyRef container;
  std::vector<PyRef> args;  // While recording.
  size_t num_args = 0;
  Py_ssize_t length = -1;  // That the container has to have; -1 for any.
  GuardNote note;

  // False, with a Python error set, if it raises.
  bool Make(PyObject* self, absl::Span<const PyRef> values) const;
};

// The calls of a run into the world outside, in order, then the places that it
// leaves changed, in the order in which they were first written, then the calls
// that change containers. Values are the run's own; they are made again at each
// hit, then Apply() puts them where they belong. Immutable once built.
//
// Its values: one for each place that isn't removed, then the arguments of
// container calls, then one for each null argument of a call, all in order.
class Effects {
 public:
  Effects() = default;
  Effects(std::vector<HostCall> calls, std::vector<Written> written,
          std::vector<Increment> increments,
          std::vector<ContainerCall> container_calls);

  // Nothing of Python's state is changed; calls may be made.
  bool empty() const {
    return written_.empty() && increments_.empty() && container_calls_.empty();
  }
  // True if what is to be added to is a number of its recorded type, and an
  // item that is to be set is there.
  bool Check(Miss* miss) const;
  // Makes the calls, puts `values` in their places, and removes what the run
  // removed. False, with a Python error set, if a call raises or there is no
  // memory. If `withheld` is given, it gets the calls, complete, and they
  // aren't made.
  bool Apply(absl::Span<const PyRef> values,
             std::vector<HostCall>* withheld = nullptr) const;
  // Adds the places that were read, then set, and now hold something that isn't
  // what was read.
  void FindSlots(std::vector<StatePlace>* slots) const;

  // What Apply() changes: places, and containers, those once for each call.
  std::vector<StatePlace> places() const;
  std::vector<PyRef> containers() const;

  // "sets self.attn (model.py:12)" each.
  std::vector<std::string> ToText() const;
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  friend class RecordDescriber;
  size_t num_values_ = 0;  // But for the calls' arguments.
  std::vector<HostCall> calls_;
  std::vector<Written> written_;
  std::vector<Increment> increments_;
  std::vector<ContainerCall> container_calls_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_EFFECTS_H_
