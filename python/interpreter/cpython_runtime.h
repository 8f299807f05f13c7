// The interpreter's own state. Only for this folder's sources.

#ifndef MICA_PYTHON_INTERPRETER_CPYTHON_RUNTIME_H_
#define MICA_PYTHON_INTERPRETER_CPYTHON_RUNTIME_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

// C's atomics aren't C++'s; the compiler's own have the same layout.
#undef HAVE_STD_ATOMIC
#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE

#endif  // MICA_PYTHON_INTERPRETER_CPYTHON_RUNTIME_H_
