#include "python/interpreter/cpython.h"
#include "python/interpreter/step_events.h"

namespace mica {

bool StartStepEvents(void (* /*on_step*/)()) { return true; }

void StopStepEvents() {}

void FollowSteps(PyFrameObject* frame) { frame->f_trace_opcodes = 1; }

void LeaveSteps(PyFrameObject* frame) { frame->f_trace_opcodes = 0; }

}  // namespace mica
