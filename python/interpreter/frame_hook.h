// Takes the place of the interpreter's own evaluation of chosen frames.

#ifndef MICA_PYTHON_INTERPRETER_FRAME_HOOK_H_
#define MICA_PYTHON_INTERPRETER_FRAME_HOOK_H_

#include <functional>

#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// A function that is about to run: all borrowed.
struct NewFrame {
  PyFunctionObject* function = nullptr;
  PyCodeObject* code = nullptr;
  // Its variables, arguments bound; null where there is none yet.
  absl::Span<PyObject* const> variables;
  // Whether torch.nn.Module's own call runs it.
  bool is_module_call = false;
};

// True for code that can be split into pieces: of the user's own functions and
// of modules' forward(), but of no generator. `code` is a function's.
bool CanSplit(PyCodeObject* code);

// True while this thread, within what `outer` called, does what is done once:
// imports a module, or makes a type that Python's typing keeps.
bool IsSettingUp(const PyFrameObject* outer);

// The variable names of a frame's own, without those of enclosing functions.
int NumOwnVariables(const PyCodeObject* code);

// While it lives, `evaluate` is asked about each function that this thread
// runs, but not under a tracer. It returns false to let the interpreter run it;
// or sets `result`, null with a Python error set included.
//
// Hooks that others installed stay in effect for what it lets pass. Hooks
// nest; the innermost of a thread is asked.
class FrameHook {
 public:
  using Evaluate = std::function<bool(const NewFrame& frame, PyRef* result)>;
  explicit FrameHook(Evaluate evaluate);
  ~FrameHook();
  FrameHook(const FrameHook&) = delete;
  FrameHook& operator=(const FrameHook&) = delete;

 private:
  Evaluate evaluate_;
  FrameHook* outer_;

  friend struct FrameHookAccess;
};

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_FRAME_HOOK_H_
