// What a program leaves behind in Python's state.

#ifndef MICA_PYTHON_CAPTURE_EFFECTS_EFFECTS_H_
#define MICA_PYTHON_CAPTURE_EFFECTS_EFFECTS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "python/capture/effects/sinks.h"
#include "python/capture/values/guard_note.h"
#include "python/capture/values/places.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// A place that the program set, at the value that it has after the run.
struct Written {
  StatePlace place;
  bool is_removed = false;
  // It was removed and then set: a dict has it behind what it had before.
  bool is_moved = false;
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
  // What is known of the call; runs_user_code if nothing is.
  Sink sink;
  // Made when all else is done, not before anything is written.
  bool is_last = false;
  // By argument that is made again: what makes of a copy of a tensor something
  // with that one's text; null if the copy has it.
  std::vector<PyRef> shown;
};

// Puts `values`, from the `next`-th on, where arguments are null. False, with
// a Python error set, if there is no memory.
bool CompleteCalls(absl::Span<const PyRef> values, size_t next,
                   std::vector<HostCall>* calls);

// A method that changes an older container, of which the program had read
// nothing: `method(container, args…)`. Arguments are the run's own.
struct ContainerCall {
  PyRef method;
  LooseRef container;
  std::vector<PyRef> args;  // While recording.
  size_t num_args = 0;
  Py_ssize_t length = -1;     // That the container has to have; -1 for any.
  bool adds_to_read = false;  // To what the run had read all of.
  GuardNote note;

  // False, with a Python error set, if it raises.
  bool Make(PyObject* self, absl::Span<const PyRef> values) const;
};

// What a run does besides computing: calls into the world outside, in order;
// the places that it leaves changed, in the order in which they were first
// written; and the calls that change containers. Values are the run's own; they
// are made again at each hit, then Apply() puts them where they belong.
// Immutable once built.
//
// Calls that run no code of the user's (sinks.h) read and change nothing of
// what the program does: a hit makes them first, before anything is written, so
// that if one raises the run can still be done again by eager. From the first
// other call on they come last, by MakeLastCalls(), when all else is done: the
// program does nothing after them.
//
// Apply()'s values: one for each place that isn't removed, then the arguments
// of container calls, then one for each null argument of a last call, all in
// order. MakeFirstCalls() has its own, one for each null argument.
class Effects {
 public:
  Effects() = default;
  Effects(std::vector<HostCall> calls, std::vector<Written> written,
          std::vector<Increment> increments,
          std::vector<ContainerCall> container_calls);

  // Nothing of Python's state is changed; first calls may be made.
  bool empty() const {
    return written_.empty() && increments_.empty() && container_calls_.empty();
  }
  bool has_first_calls() const { return !first_calls_.empty(); }
  bool has_calls() const { return has_first_calls() || !last_calls_.empty(); }
  // True if what is to be added to is a number of its recorded type, an item
  // that is to be set is there, and first calls run no code of the user's.
  bool Check(Miss* miss) const;
  // Makes the first calls. False, with a Python error set, if one raises:
  // `made` is how many come before it. If `withheld` is given, it gets the
  // calls, complete, and they aren't made; likewise of the last ones.
  bool MakeFirstCalls(absl::Span<const PyRef> values, size_t* made,
                      std::vector<HostCall>* withheld) const;
  // Puts `values` in their places, and removes what the run removed. False,
  // with a Python error set, if there is no memory.
  bool Apply(absl::Span<const PyRef> values) const;
  bool MakeLastCalls(absl::Span<const PyRef> values,
                     std::vector<HostCall>* withheld) const;
  // Adds the places that were read, then set, and now hold something that isn't
  // what was read.
  // Holders of which `is_alive` isn't true are left out.
  void FindSlots(absl::FunctionRef<bool(PyObject*)> is_alive,
                 std::vector<StatePlace>* slots) const;
  // Whether Apply() changes this container by calls.
  bool Changes(PyObject* container) const;
  // Calls `let_go` on what holds the places that Apply() changes.
  void LetGo(absl::FunctionRef<void(LooseRef*)> let_go);

  // What Apply() changes: places, and containers, those once for each call.
  // Requires: they are alive.
  std::vector<StatePlace> places() const;
  std::vector<LooseRef> containers() const;

  // "sets self.attn (model.py:12)" each.
  std::vector<std::string> ToText() const;
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  friend class RecordDescriber;
  size_t num_values_ = 0;  // But for the calls' arguments.
  std::vector<HostCall> first_calls_;
  std::vector<HostCall> last_calls_;
  std::vector<Written> written_;
  std::vector<Increment> increments_;
  std::vector<ContainerCall> container_calls_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_EFFECTS_EFFECTS_H_
