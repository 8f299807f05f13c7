// CPython 3.11's own frames. Only for cpython_311.cc and opcode_stream_311.cc.

#ifndef MICA_PYTHON_INTERPRETER_CPYTHON_311_H_
#define MICA_PYTHON_INTERPRETER_CPYTHON_311_H_

#include "python/interpreter/py_ref.h"

#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#include <frameobject.h>

#endif  // MICA_PYTHON_INTERPRETER_CPYTHON_311_H_
