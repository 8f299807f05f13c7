// What frames of CPython 3.12 and later versions have in common. By their own
// headers alone.

#ifndef MICA_PYTHON_INTERPRETER_CPYTHON_SINCE_312_H_
#define MICA_PYTHON_INTERPRETER_CPYTHON_SINCE_312_H_

#include <cstdint>

#include "python/interpreter/py_ref.h"

#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#include <frameobject.h>

namespace mica {

using Frame = _PyInterpreterFrame;

// The frame, or the next above it that isn't where C code enters the
// interpreter: that one runs no code of the program's.
inline const Frame* PastEntries(const Frame* frame) {
  while (frame != nullptr && frame->owner == FRAME_OWNED_BY_CSTACK) {
    frame = frame->previous;
  }
  return frame;
}
inline const Frame* CallerOf(const Frame* frame) {
  return PastEntries(frame->previous);
}
inline PyObject* FunctionOf(const Frame* frame) { return frame->f_funcobj; }

// How many operands a frame has before an instruction. While it runs the frame
// doesn't know; the code does (FindDepths() in instructions.h).
inline int NumOperands(const Frame* /*frame*/, int known_depth) {
  return known_depth;
}

// The attributes of a class that doesn't have them itself: of those in C that
// are CPython's own each interpreter has others.
inline PyObject* StaticTypeDict(PyTypeObject* type) {
  PyObject* dict = PyType_GetDict(type);
  Py_XDECREF(dict);  // Who has the type has them.
  return dict;
}

// Makes a number of one digit that was just allocated `size`, or -`size`.
inline void SetOneDigit(PyLongObject* number, digit size, bool is_negative) {
  constexpr uintptr_t kPositive = 0, kZero = 1, kNegative = 2, kOneDigit = 8;
  number->long_value.ob_digit[0] = size;
  number->long_value.lv_tag = size == 0     ? kZero
                              : is_negative ? kOneDigit | kNegative
                                            : kOneDigit | kPositive;
}

// Does what is left to do about a frame that somebody evaluated in the
// interpreter's place: an evaluation is to take its frame away, and only the
// interpreter can. It does so as an exception leaves the frame at once; a tool
// of sys.monitoring's sees the function thrown into and left.
inline void DropFrame(PyThreadState* thread, Frame* frame) {
  const PyErrorKeeper keeper;
  PyErr_SetNone(PyExc_StopIteration);
  _PyEval_EvalFrameDefault(thread, frame, /*exc=*/1);
  PyErr_Clear();
}

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_CPYTHON_SINCE_312_H_
