// CPython 3.11's own frames. By cpython.h alone.

#ifndef MICA_PYTHON_INTERPRETER_CPYTHON_311_H_
#define MICA_PYTHON_INTERPRETER_CPYTHON_311_H_

#include <cstdint>

#include "python/interpreter/py_ref.h"

#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#include <frameobject.h>

namespace mica {

using Frame = _PyInterpreterFrame;

inline const Frame* RunningFrame(PyThreadState* thread) {
  return thread->cframe->current_frame;
}
inline const Frame* CallerOf(const Frame* frame) { return frame->previous; }
inline PyCodeObject* CodeOf(const Frame* frame) { return frame->f_code; }
inline PyObject* FunctionOf(const Frame* frame) {
  return reinterpret_cast<PyObject*>(frame->f_func);
}

// How many operands a frame has before an instruction; the frame itself knows.
inline int NumOperands(const Frame* frame, int /*known_depth*/) {
  return frame->stacktop - frame->f_code->co_nlocalsplus;
}

// A call has the callable above NULL, or a method below its self.
inline constexpr bool kCallableIsFirst = false;

// The dict that an object has made for its attributes, or null.
inline PyObject* ManagedDict(PyObject* object) {
  if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0) {
    return nullptr;
  }
  // Before the object: its dict, and its values while it has no dict.
  return reinterpret_cast<PyObject**>(object)[-3];
}

// The attributes of a class that doesn't have them itself: none.
inline PyObject* StaticTypeDict(PyTypeObject* /*type*/) { return nullptr; }

// Whether a class's version holds.
inline bool HasVersion(const PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) != 0;
}

inline bool IsSuspended(int8_t state) { return state == FRAME_SUSPENDED; }

// Nothing of the frame has run.
inline bool IsNew(const Frame* frame) {
  return _PyInterpreterFrame_LASTI(frame) < 0;
}

// Makes a number of one digit that was just allocated `size`, or -`size`.
inline void SetOneDigit(PyLongObject* number, digit size, bool is_negative) {
  number->ob_digit[0] = size;
  Py_SET_SIZE(number, size == 0 ? 0 : is_negative ? -1 : 1);
}

// Does what is left to do about a frame that somebody evaluated in the
// interpreter's place: nothing, who asks for an evaluation takes the frame
// away.
inline void DropFrame(PyThreadState* /*thread*/, Frame* /*frame*/) {}

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_CPYTHON_311_H_
