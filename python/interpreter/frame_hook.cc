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

PyInterpreterState* Interpreter() { return PyInterpreterState_Get(); }

}  // namespace

struct FrameHookAccess {
  static PyObject* Hook(PyThreadState* thread, Frame* frame, int is_throw) {
    FrameHook* hook = innermost;
    const _PyFrameEvalFunction run =
        below != nullptr ? below : &_PyEval_EvalFrameDefault;
    if (hook == nullptr || is_throw != 0 ||
        frame->owner != FRAME_OWNED_BY_THREAD ||
        thread->c_tracefunc != nullptr) {
      return run(thread, frame, is_throw);
    }
    constexpr int kFunction = CO_NEWLOCALS | CO_OPTIMIZED;
    PyCodeObject* code = CodeOf(frame);
    if ((code->co_flags & kFunction) != kFunction || !IsNew(frame)) {
      return run(thread, frame, is_throw);
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
    if (!is_done) return run(thread, frame, is_throw);
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
  if (_PyInterpreterState_GetEvalFrameFunc(Interpreter()) ==
      &FrameHookAccess::Hook) {
    _PyInterpreterState_SetEvalFrameFunc(Interpreter(), below);
  } else {
    is_covered = true;
  }
}

}  // namespace mica
