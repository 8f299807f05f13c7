#include "python/interpreter/step_events.h"

namespace mica {
namespace {

// Under the GIL.
int num_starts = 0;
int tool = -1;
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
int FreeTool(PyObject* monitoring) {
  for (const int id : {4, 3, 5, 2, 1, 0}) {
    const PyRef name =
        PyRef::Steal(PyObject_CallMethod(monitoring, "get_tool", "i", id));
    if (!name) return -1;
    if (name.get() == Py_None) return id;
  }
  return -1;
}

// False with an error set.
bool Register(PyObject* monitoring, long event, PyObject* function) {
  const PyRef before = PyRef::Steal(PyObject_CallMethod(
      monitoring, "register_callback", "ilO", tool, event, function));
  return static_cast<bool>(before);
}

bool SetEvents(PyObject* monitoring, long events) {
  const PyRef none = PyRef::Steal(
      PyObject_CallMethod(monitoring, "set_events", "il", tool, events));
  return static_cast<bool>(none);
}

bool TakeTool(PyObject* monitoring) {
  if (monitoring == nullptr) return false;
  tool = FreeTool(monitoring);
  if (tool < 0) return false;
  const PyRef none = PyRef::Steal(
      PyObject_CallMethod(monitoring, "use_tool_id", "is", tool, "mica"));
  if (!none) {
    tool = -1;  // It is somebody else's.
    return false;
  }
  const long event = InstructionEvent(monitoring);
  const PyRef function =
      PyRef::Steal(PyCFunction_New(&on_instruction, nullptr));
  return event >= 0 && function &&
         Register(monitoring, event, function.get()) &&
         SetEvents(monitoring, event);
}

// Each step is taken whatever became of those before it: there are few tools.
void ReleaseTool(PyObject* monitoring) {
  if (monitoring == nullptr || tool < 0) return PyErr_Clear();
  const long event = InstructionEvent(monitoring);
  if (event < 0 || !SetEvents(monitoring, 0)) PyErr_Clear();
  if (event < 0 || !Register(monitoring, event, Py_None)) PyErr_Clear();
  const PyRef none =
      PyRef::Steal(PyObject_CallMethod(monitoring, "free_tool_id", "i", tool));
  if (!none) PyErr_Clear();
  tool = -1;
}

}  // namespace

bool StartStepEvents(void (*on_step)()) {
  const PyErrorKeeper keeper;
  if (num_starts == 0) {
    callback = on_step;
    if (!TakeTool(Monitoring())) {
      ReleaseTool(Monitoring());
      return false;
    }
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
