// The places where dicts and sets hold their keys.

#ifndef MICA_PYTHON_INTERPRETER_KEYS_H_
#define MICA_PYTHON_INTERPRETER_KEYS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Puts other objects in the places of a dict's keys or a set's members:
// `other` gives one that is equal and has the same hash, or the key itself,
// borrowed. Of dicts and sets of any class, frozensets included. Nobody can
// tell but by identity: order, version and iterators stay.
void ReplaceKeys(PyObject* container,
                 absl::FunctionRef<PyObject*(PyObject*)> other);

// Where a set has its members: their order goes by what was added and removed
// before, and so does the place of what is added later.
class SetForm {
 public:
  // That of a set or frozenset.
  static SetForm Of(PyObject* set);
  // A new set, or a frozenset, of these members in the order of the first. If
  // one's hash isn't that of the first's, it has the order of adding them.
  // Null with a Python error set.
  PyRef Make(PyTypeObject* type, absl::Span<const PyRef> members) const;

 private:
  struct Entry {
    Py_ssize_t place;
    Py_hash_t hash;
  };

  // False, with a Python error set if there is no memory, if it can't be had.
  bool Fill(PyObject* set, absl::Span<const PyRef> members) const;

  Py_ssize_t mask_ = 0;
  Py_ssize_t finger_ = 0;  // Where pop() goes on.
  std::vector<Entry> members_;
  std::vector<Py_ssize_t> removed_;  // Places that aren't used again.
  PyObject* filler_ = nullptr;       // What is there: CPython's own.
};

// The dict behind `keys()` or `items()`. Borrowed.
PyObject* DictOfView(PyObject* view);

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_KEYS_H_
