// The running interpreter's own frames, under names that all versions share.
// Only for this folder's sources.

#ifndef MICA_PYTHON_INTERPRETER_CPYTHON_H_
#define MICA_PYTHON_INTERPRETER_CPYTHON_H_

#include <cstddef>

#include "python/interpreter/py_ref.h"

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
#include "python/interpreter/cpython_311.h"
#elif PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000
#include "python/interpreter/cpython_312.h"
#elif PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030e0000 && \
    !defined(Py_GIL_DISABLED)
#include "python/interpreter/cpython_313.h"
#else
#error "known are CPython 3.11, 3.12 and 3.13, with the GIL"
#endif

namespace mica {

// The code object as a PyObject, for PyRef.
inline PyObject* AsObject(PyCodeObject* code) {
  return reinterpret_cast<PyObject*>(code);
}

// The frame that a thread executes; null in none.
inline const Frame* RunningFrame() { return RunningFrame(PyThreadState_Get()); }

// Which of a code's units a frame is at: that of the instruction, or a cache of
// it; below 0 before the first.
inline int UnitOf(const Frame* frame) {
  return IsNew(frame) ? -1
                      : _PyInterpreterFrame_LASTI(const_cast<Frame*>(frame));
}

// The generator, or its like, that a frame is part of; null for a function's.
inline PyObject* GeneratorOf(const Frame* frame) {
  if (frame->owner != FRAME_OWNED_BY_GENERATOR) return nullptr;
  auto* inside = reinterpret_cast<char*>(const_cast<Frame*>(frame));
  return reinterpret_cast<PyObject*>(inside - offsetof(PyGenObject, gi_iframe));
}

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_CPYTHON_H_
