// Signals, above all Ctrl-C, while Jobs run.

#ifndef MICA_PYTHON_PROCESS_SIGNALS_H_
#define MICA_PYTHON_PROCESS_SIGNALS_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "absl/functional/function_ref.h"
#include "executor/job/outcome.h"

namespace mica {

// For JobOptions::interrupt. Python's handlers run between steps, on the main
// thread as Python has it, within a SignalScope; if one raises, the run ends
// with Cancelled.
Interrupt SignalInterrupt();

// Lives on a thread around a run, with the GIL at both ends; within, the thread
// may be without. Single-thread.
class SignalScope {
 public:
  // `keep` is called, with the GIL, before handlers run: they may be anything,
  // and drop what the run uses. It must outlive this.
  explicit SignalScope(absl::FunctionRef<void()> keep);
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  // If a handler raised, sets its exception and returns true.
  bool Raise();

 private:
  friend absl::Status AnswerSignals();
  absl::Status Answer();

  SignalScope* const outer_;
  const absl::FunctionRef<void()> keep_;
  bool has_kept_ = false;
  PyObject* type_ = nullptr;  // What a handler raised.
  PyObject* value_ = nullptr;
  PyObject* traceback_ = nullptr;
};

}  // namespace mica

#endif  // MICA_PYTHON_PROCESS_SIGNALS_H_
