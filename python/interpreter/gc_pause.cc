#include "python/interpreter/gc_pause.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>

// C's atomics aren't C++'s; the compiler's own have the same layout.
#undef HAVE_STD_ATOMIC
#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED
#include <internal/pycore_interp.h>
#undef Py_BUILD_CORE

namespace mica {

int& GcPause::IsRunning() {
  static int& flag = PyInterpreterState_Get()->gc.collecting;
  return flag;
}

}  // namespace mica
