// Whether Python has a signal to handle.

#ifndef MICA_PYTHON_INTERPRETER_PENDING_SIGNALS_H_
#define MICA_PYTHON_INTERPRETER_PENDING_SIGNALS_H_

#include <atomic>

namespace mica {

// Not 0 while a signal waits for the main thread. Any thread, without the GIL.
const std::atomic<int>* PendingSignals();

// Whether this is the thread on which Python runs handlers.
bool IsMainThread();

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_PENDING_SIGNALS_H_
