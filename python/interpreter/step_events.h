// How the interpreter announces single instructions to the stream.

#ifndef MICA_PYTHON_INTERPRETER_STEP_EVENTS_H_
#define MICA_PYTHON_INTERPRETER_STEP_EVENTS_H_

#include "python/interpreter/py_ref.h"

namespace mica {

// From 3.12 on, a tool of sys.monitoring's: `on_step` is called before each
// instruction of every thread. False if no tool is free. Starts are counted;
// all have the same `on_step`. On 3.11 the trace function is told instead, of
// frames that FollowSteps() was called for: PyTrace_OPCODE.
//
// Why no PyTrace_OPCODE later: on 3.12 it comes only after some Python code
// asked for it, and then makes all tracers slower for good; on 3.13 another
// thread that runs the same code would turn it off.
bool StartStepEvents(void (*on_step)());
// Requires: StartStepEvents() gave true.
void StopStepEvents();

// Steps of a function whose call is being traced are announced, too.
void FollowSteps(PyFrameObject* frame);
// It returns, or waits: others may trace it when it goes on.
void LeaveSteps(PyFrameObject* frame);

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_STEP_EVENTS_H_
