#include "python/interpreter/step_events.h"

namespace mica {
namespace {

// Under the GIL. A tool is taken, but tells of no instruction, while its
// callback is being registered: an audit hook in Python sees that, and other
// threads run meanwhile.
int num_starts = 0;
int tool = -1;
bool is_telling = false;
void (*callback)() = nullptr;

PyObject* OnInstruction(PyObject* /*self*/, PyObject* const* /*args*/,
                        Py_ssize_t /*num_args*/) {
  callback();
  if (PyErr_Occurred() != nullptr) return nullptr;  // The program ends here.
  Py_RETURN_NONE;
}

PyMethodDef on_instruction = {
    "on_instruction",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&OnInstruction)),
    METH_FASTCALL, nullptr};

// sys.monitoring. Borrowed.
PyObject* Monitoring() { return PySys_GetObject("monitoring"); }

// The number of sys.monitoring.events.INSTRUCTION; -1 with an error set.
long InstructionEvent(PyObject* monitoring) {
  const PyRef events =
      PyRef::Steal(PyObject_GetAttrString(monitoring, "events"));
  const PyRef event = PyRef::Steal(
      events ? PyObject_GetAttrString(events.get(), "INSTRUCTION") : nullptr);
  return event ? PyLong_AsLong(event.get()) : -1;
}

// A number that no tool has, those without a customary one first; or -1.
//
// Beside others another one than alone: CPython notes tools for each
// instruction from when several tell of the same code, and forgets there the
// one that told of it alone the last time.
int FreeTool(PyObject* monitoring) {
  int free = -1, other = -1;
  bool is_alone = PyThreadState_Get()->c_profilefunc == nullptr;
  for (const int id : {4, 3, 5, 2, 1, 0}) {
    const PyRef name =
        PyRef::Steal(PyObject_CallMethod(monitoring, "get_tool", "i", id));
    if (!name) return -1;
    if (name.get() != Py_None) {
      is_alone = false;
    } else if (free < 0) {
      free = id;
    } else if (other < 0) {
      other = id;
    }
  }
  return is_alone || other < 0 ? free : other;
}

// False with an error set.
bool Register(PyObject* monitoring, long event) {
  static PyObject* function = PyCFunction_New(&on_instruction, nullptr);
  if (function == nullptr) return false;
  const PyRef before = PyRef::Steal(PyObject_CallMethod(
      monitoring, "register_callback", "ilO", tool, event, function));
  return static_cast<bool>(before);
}

bool SetEvents(PyObject* monitoring, long events) {
  const PyRef none = PyRef::Steal(
      PyObject_CallMethod(monitoring, "set_events", "il", tool, events));
  return static_cast<bool>(none);
}

// True if there is a tool, which others share. False with or without an error.
bool TakeTool(PyObject* monitoring) {
  if (tool >= 0) return true;
  const int free = FreeTool(monitoring);
  if (free < 0) return false;
  const PyRef none = PyRef::Steal(
      PyObject_CallMethod(monitoring, "use_tool_id", "is", free, "mica"));
  if (none) tool = free;
  return tool >= 0;
}

// No audit hook sees any of this. The callback stays: whose tool it is next
// registers another, and ours finds no stream that runs.
void ReleaseTool(PyObject* monitoring) {
  if (monitoring == nullptr || tool < 0) return PyErr_Clear();
  if (!SetEvents(monitoring, 0)) PyErr_Clear();
  const PyRef none =
      PyRef::Steal(PyObject_CallMethod(monitoring, "free_tool_id", "i", tool));
  if (!none) PyErr_Clear();
  tool = -1;
  is_telling = false;
}

// False with or without an error.
bool Tell(PyObject* monitoring) {
  if (monitoring == nullptr) return false;
  const long event = InstructionEvent(monitoring);
  if (event < 0) return false;
  // What a handler of a signal raises in an audit hook comes once.
  constexpr int kMaxTries = 3;
  for (int tries = 0; !is_telling && TakeTool(monitoring);) {
    const int taken = tool;
    if (!Register(monitoring, event)) {
      if (++tries == kMaxTries) return false;
      PyErr_WriteUnraisable(monitoring);
    } else if (tool == taken && !is_telling) {
      // Else another thread gave it back meanwhile, or went on with it.
      is_telling = SetEvents(monitoring, event);
      if (!is_telling) return false;
    }
  }
  return is_telling;
}

}  // namespace

bool StartStepEvents(void (*on_step)()) {
  const PyErrorKeeper keeper;
  callback = on_step;
  if (!Tell(Monitoring())) {
    if (num_starts == 0) ReleaseTool(Monitoring());
    PyErr_Clear();
    return false;
  }
  ++num_starts;
  return true;
}

void StopStepEvents() {
  if (--num_starts > 0) return;
  const PyErrorKeeper keeper;
  ReleaseTool(Monitoring());
}

void FollowSteps(PyFrameObject* /*frame*/) {}

void LeaveSteps(PyFrameObject* /*frame*/) {}

}  // namespace mica
