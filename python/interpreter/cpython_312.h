// CPython 3.12's own frames. By cpython.h alone.

#ifndef MICA_PYTHON_INTERPRETER_CPYTHON_312_H_
#define MICA_PYTHON_INTERPRETER_CPYTHON_312_H_

#include <cstdint>

#include "python/interpreter/cpython_since_312.h"

namespace mica {

inline const Frame* RunningFrame(PyThreadState* thread) {
  return PastEntries(thread->cframe->current_frame);
}
inline PyCodeObject* CodeOf(const Frame* frame) { return frame->f_code; }

// A call has the callable above NULL, or a method below its self.
inline constexpr bool kCallableIsFirst = false;

// The dict that an object has made for its attributes, or null.
inline PyObject* ManagedDict(PyObject* object) {
  if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0) {
    return nullptr;
  }
  // Before the object: its dict or, with the lowest bit set, its values.
  const auto word = reinterpret_cast<uintptr_t*>(object)[-3];
  return (word & 1) != 0 ? nullptr : reinterpret_cast<PyObject*>(word);
}

// Whether a class's version holds.
inline bool HasVersion(const PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) != 0;
}

inline bool IsSuspended(int8_t state) { return state == FRAME_SUSPENDED; }

// Nothing of the frame has run.
inline bool IsNew(const Frame* frame) {
  return _PyInterpreterFrame_LASTI(frame) < 0;
}

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_CPYTHON_312_H_
