// The items of lists and deques, which may be changed in place.

#ifndef MICA_PYTHON_CAPTURE_VALUES_SEQUENCES_H_
#define MICA_PYTHON_CAPTURE_VALUES_SEQUENCES_H_

#include <vector>

#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// A collections.deque, of no subclass.
bool IsDeque(PyObject* object);
// The most items that a deque holds; -1 for any number, and for what is none.
Py_ssize_t BoundOf(PyObject* container);

// In order; of a list or a deque.
std::vector<PyRef> ItemsInOrder(PyObject* sequence);
// False with a Python error set.
bool SetItemAt(PyObject* sequence, Py_ssize_t index, PyObject* item);
// Has it hold these items instead. False with a Python error set.
bool PutItems(PyObject* sequence, absl::Span<const PyRef> items);
// A deque of no items; null with a Python error set.
PyRef NewDeque(Py_ssize_t bound);
// At its end. False with a Python error set.
bool AppendTo(PyObject* deque, PyObject* item);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_SEQUENCES_H_
