// frame_hook.h, by what PEP 523 has.

#include "python/interpreter/frame_hook.h"

#include <utility>

#include "python/interpreter/contained.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

thread_local FrameHook* innermost = nullptr;

// Under the GIL.
int num_hooks = 0;
_PyFrameEvalFunction below = nullptr;  // What was installed before.
// Another came on top of ours and may call it: ours can't go on top of that.
bool is_covered = false;

// What `below` runs for us on this thread.
thread_local const Frame* passed = nullptr;

PyInterpreterState* Interpreter() { return PyInterpreterState_Get(); }

// To what was installed before. That may have come on top of ours since, as
// torch.compile's does when another thread begins to use it, and ask us again
// for the frame that it runs for us: then it is the interpreter's.
PyObject* Pass(PyThreadState* thread, Frame* frame, int is_throw) {
  if (below == nullptr || passed == frame) {
    return _PyEval_EvalFrameDefault(thread, frame, is_throw);
  }
  const Frame* outer = std::exchange(passed, frame);
  PyObject* result = below(thread, frame, is_throw);
  passed = outer;
  return result;
}

}  // namespace

struct FrameHookAccess {
  // False if another lies on top of ours. One that did may also put ours back
  // when nobody needs it.
  static bool Leave() {
    if (_PyInterpreterState_GetEvalFrameFunc(Interpreter()) != &Hook) {
      return false;
    }
    _PyInterpreterState_SetEvalFrameFunc(Interpreter(), below);
    return true;
  }

  static PyObject* Hook(PyThreadState* thread, Frame* frame, int is_throw) {
    FrameHook* hook = innermost;
    if (num_hooks == 0) Leave();
    if (hook == nullptr || passed == frame || is_throw != 0 ||
        frame->owner != FRAME_OWNED_BY_THREAD ||
        thread->c_tracefunc != nullptr) {
      return Pass(thread, frame, is_throw);
    }
    constexpr int kFunction = CO_NEWLOCALS | CO_OPTIMIZED;
    PyCodeObject* code = CodeOf(frame);
    if ((code->co_flags & kFunction) != kFunction || !IsNew(frame)) {
      return Pass(thread, frame, is_throw);
    }
    const Frame* caller = RunningFrame(thread);
    const NewFrame made{
        .function = reinterpret_cast<PyFunctionObject*>(FunctionOf(frame)),
        .code = code,
        .variables = {frame->localsplus,
                      static_cast<size_t>(NumOwnVariables(code))},
        .is_module_call = caller != nullptr && IsModuleCall(CodeOf(caller))};
    PyRef result;
    const bool is_done =
        Contained(true, [&] { return hook->evaluate_(made, &result); });
    if (!is_done) return Pass(thread, frame, is_throw);
    DropFrame(thread, frame);
    return result.release();
  }
};

int NumOwnVariables(const PyCodeObject* code) {
  return code->co_nlocalsplus - code->co_nfreevars;
}

FrameHook::FrameHook(Evaluate evaluate)
    : evaluate_(std::move(evaluate)), outer_(std::exchange(innermost, this)) {
  if (num_hooks++ > 0) return;
  const _PyFrameEvalFunction now =
      _PyInterpreterState_GetEvalFrameFunc(Interpreter());
  if (now == &_PyEval_EvalFrameDefault || now == &FrameHookAccess::Hook) {
    is_covered = false;
  }
  if (now == &FrameHookAccess::Hook || is_covered) return;
  below = now;
  _PyInterpreterState_SetEvalFrameFunc(Interpreter(), &FrameHookAccess::Hook);
}

FrameHook::~FrameHook() {
  innermost = outer_;
  if (--num_hooks > 0) return;
  is_covered = !FrameHookAccess::Leave();
}

}  // namespace mica
