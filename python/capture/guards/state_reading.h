// What guards of the state read of objects. Nothing here runs Python code.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_STATE_READING_H_
#define MICA_PYTHON_CAPTURE_GUARDS_STATE_READING_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Its value in the running context; null if it has none.
PyRef ContextValue(PyObject* variable);

inline PyObject* TypeOf(PyObject* object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object));
}

// Null if it is absent. Borrowed.
PyObject* FindItem(PyObject* dict, PyObject* key);

// True if this thread could take the lock at once and doesn't hold it.
bool IsFreeLock(PyObject* lock);

// Calls `visit(item)` for the items of a list, tuple, set or deque in order,
// until it returns false; for the result that an item of a cache has.
void ForEachItem(PyObject* container, absl::FunctionRef<bool(PyObject*)> visit);

// Calls `visit` on what a function has as long as it is there: its globals and
// what its closure has, and on its defaults.
void ForEachPart(PyObject* function, absl::FunctionRef<void(PyObject*)> visit);

// True for what a class has of functions: a property, a staticmethod or a
// classmethod, of no class of the user's.
bool IsWrapper(PyObject* attribute);
// True for what Python made with the class: its slots, its __dict__.
bool IsOwnDescriptor(PyTypeObject* type, PyObject* attribute);
// The functions of a wrapper, null for those that it hasn't; none for others.
std::vector<PyRef> AttributeParts(PyObject* attribute);

// Words of a list, tuple, set or item of a cache that can't but differ if an
// item does; what one leads to is behind it. None for other containers.
std::vector<const void*> PlacesOfItems(PyObject* container);

// Keys and values as a dict iterates; an OrderedDict's order is its own.
std::vector<std::pair<PyRef, PyRef>> ContentsOf(PyObject* dict);

// A buffer's format and layout, and its bytes, valid until `view` is released;
// false if it isn't dense plain memory of bounded size.
bool ReadArray(PyObject* array, std::string* form, absl::string_view* bytes,
               Py_buffer* view);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_STATE_READING_H_
