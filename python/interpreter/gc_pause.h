// Python's garbage collector, kept from running.

#ifndef MICA_PYTHON_INTERPRETER_GC_PAUSE_H_
#define MICA_PYTHON_INTERPRETER_GC_PAUSE_H_

#include <utility>

namespace mica {

// While one is there the collector doesn't start by itself, so that making an
// object ends no other, and runs no finalizer. gc.isenabled() doesn't tell.
// Needs the GIL, from its making to its end.
class GcPause {
 public:
  GcPause() : was_running_(std::exchange(IsRunning(), 1)) {}
  ~GcPause() { IsRunning() = was_running_; }
  GcPause(const GcPause&) = delete;
  GcPause& operator=(const GcPause&) = delete;

 private:
  // The collector's own flag, which keeps a second one from starting.
  static int& IsRunning();

  const int was_running_;
};

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_GC_PAUSE_H_
