// CPython 3.11's own flag, which its interpreter loop looks at.

#include "python/interpreter/pending_signals.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>

// C's atomics aren't C++'s; the compiler's own have the same layout.
#undef HAVE_STD_ATOMIC
#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE

namespace mica {

static_assert(sizeof(std::atomic<int>) ==
              sizeof(_PyRuntime.ceval.signals_pending));

const std::atomic<int>* PendingSignals() {
  return reinterpret_cast<const std::atomic<int>*>(
      &_PyRuntime.ceval.signals_pending);
}

bool IsMainThread() {
  return PyThread_get_thread_ident() == _PyRuntime.main_thread;
}

}  // namespace mica
