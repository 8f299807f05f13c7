// CPython 3.13's own frames. By cpython.h alone.

#ifndef MICA_PYTHON_INTERPRETER_CPYTHON_313_H_
#define MICA_PYTHON_INTERPRETER_CPYTHON_313_H_

#include <cstdint>

#include "python/interpreter/cpython_since_312.h"

#define Py_BUILD_CORE 1
#include <internal/pycore_setobject.h>
#undef Py_BUILD_CORE

namespace mica {

inline const Frame* RunningFrame(PyThreadState* thread) {
  return PastEntries(thread->current_frame);
}
inline PyCodeObject* CodeOf(const Frame* frame) {
  return reinterpret_cast<PyCodeObject*>(frame->f_executable);
}

// A call has the callable, NULL or self, and the arguments.
inline constexpr bool kCallableIsFirst = true;

// The dict that an object has made for its attributes, or null.
inline PyObject* ManagedDict(PyObject* object) {
  if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0) {
    return nullptr;
  }
  return reinterpret_cast<PyObject**>(object)[-3];  // Before the object.
}

// Whether a class's version holds: no flag tells any more.
inline bool HasVersion(const PyTypeObject* type) {
  return type->tp_version_tag != 0;
}

inline bool IsSuspended(int8_t state) { return FRAME_STATE_SUSPENDED(state); }

// Nothing of the frame has run, but perhaps what sets it up.
inline bool IsNew(const Frame* frame) {
  return frame->instr_ptr == _PyCode_CODE(CodeOf(frame));
}

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_CPYTHON_313_H_
