// Where Python keeps what a program may set: items of dicts, cells, and lists.

#ifndef MICA_PYTHON_CAPTURE_VALUES_PLACES_H_
#define MICA_PYTHON_CAPTURE_VALUES_PLACES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "python/capture/values/guard_note.h"
#include "python/capture/values/loose_ref.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// An item of a dict (an object's attribute, a global), or what a cell holds; or
// a list or deque itself, wherever it is reached from, for what it holds.
struct StatePlace {
  LooseRef holder;
  PyRef key;  // Null for a cell, Itself() for a sequence.
  GuardNote note;

  // Stands for the holder. Borrowed.
  static PyObject* Itself();
  // Stands for nothing but that a list or deque has more items at each call:
  // its place holds nothing. Borrowed.
  static PyObject* Growth();
  // The place that is a list or deque.
  static StatePlace OfSequence(PyObject* sequence, GuardNote note);
  static StatePlace OfGrowing(PyObject* container, GuardNote note);
  // What it holds, or null. Borrowed.
  PyObject* Find() const;
  // Null removes. False with a Python error set.
  bool Set(PyObject* value) const;
};

// True for a list or deque that had `size` items and still has as many, and not
// too many to be read item by item at each call; for a deque, too, that grows
// until it has not too many.
bool IsSlotSequence(PyObject* sequence, size_t size);

// Places of a program's state that it reads and then sets, so that they hold
// something else at each call: a counter, a hidden state. Records read them as
// they read arguments. All that it names is kept alive, until it is found that
// nobody else has it.
class Slots {
 public:
  // False if it was known, or is barred.
  bool Add(StatePlace place);
  // The place of a list or deque of whose items this is the path of one; null
  // if there is none.
  const StatePlace* FindSequence(absl::string_view path) const;
  // Drops a place, for good: to read it at each call is of no use.
  void Bar(PyObject* holder, PyObject* key);
  // Drops the places of what nobody else holds, such as the attributes of an
  // object that is gone: no program can reach them. True if there were any.
  bool DropUnreachable();
  // Drops the places of holders of which `is_used` isn't true; true if there
  // were any.
  bool Keep(absl::FunctionRef<bool(PyObject*)> is_used);
  bool Has(PyObject* holder, PyObject* key) const {
    return !index_.empty() && index_.contains({holder, key});
  }
  bool empty() const { return places_.empty(); }
  absl::Span<const StatePlace> places() const { return places_; }
  // What each holds now; Absent() for nothing. Borrowed.
  std::vector<PyObject*> Values() const;
  // Stands for nothing. Borrowed.
  static PyObject* Absent();
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  bool KeepPlaces(absl::FunctionRef<bool(const StatePlace&)> is_kept);

  std::vector<StatePlace> places_;
  absl::flat_hash_map<std::pair<PyObject*, PyObject*>, int> index_;
  // Not dereferenced.
  absl::flat_hash_set<std::pair<PyObject*, PyObject*>> barred_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_PLACES_H_
