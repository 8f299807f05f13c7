#include "python/process/signals.h"

#include "absl/status/status.h"
#include "python/interpreter/pending_signals.h"

namespace mica {
namespace {

thread_local SignalScope* innermost = nullptr;

}  // namespace

absl::Status AnswerSignals() {
  if (innermost == nullptr || !IsMainThread()) return absl::OkStatus();
  return innermost->Answer();
}

Interrupt SignalInterrupt() {
  return {.flag = PendingSignals(), .ask = &AnswerSignals};
}

SignalScope::SignalScope(absl::FunctionRef<void()> keep)
    : outer_(innermost), keep_(keep) {
  innermost = this;
}

SignalScope::~SignalScope() {
  innermost = outer_;
  Py_XDECREF(type_);
  Py_XDECREF(value_);
  Py_XDECREF(traceback_);
}

absl::Status SignalScope::Answer() {
  if (type_ != nullptr) return absl::CancelledError("a signal");
  const PyGILState_STATE state = PyGILState_Ensure();
  if (!has_kept_) keep_();
  has_kept_ = true;
  absl::Status status;
  if (Py_MakePendingCalls() != 0) {
    PyErr_Fetch(&type_, &value_, &traceback_);
    status = absl::CancelledError("a signal's handler raised an exception");
  }
  PyGILState_Release(state);
  return status;
}

bool SignalScope::Raise() {
  if (type_ == nullptr) return false;
  PyErr_Restore(type_, value_, traceback_);
  type_ = value_ = traceback_ = nullptr;
  return true;
}

}  // namespace mica
