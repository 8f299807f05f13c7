// CPython's own flag for the main thread.

#include "python/interpreter/pending_signals.h"

#include "python/interpreter/cpython_runtime.h"

namespace mica {

namespace {

#if PY_VERSION_HEX < 0x030d0000
// What the interpreter's loop looks at.
auto& flag = _PyRuntime.ceval.signals_pending;
#else
// The loop's own is one bit of many. This one is for signals alone.
auto& flag = _PyRuntime.signals.is_tripped;
#endif

static_assert(sizeof(std::atomic<int>) == sizeof(flag));

}  // namespace

const std::atomic<int>* PendingSignals() {
  return reinterpret_cast<const std::atomic<int>*>(&flag);
}

bool IsMainThread() {
  return PyThread_get_thread_ident() == _PyRuntime.main_thread;
}

}  // namespace mica
