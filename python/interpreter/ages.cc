// AgeMark, by the lists of the cyclic garbage collector.

#include <limits>
#include <utility>

#include "python/interpreter/collector.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// What precedes every object that the cyclic collector tracks.
struct GcHead {
  uintptr_t next;  // The lowest bit is a flag, from 3.13 on.
  uintptr_t prev;  // The two lowest bits are flags.
};
GcHead* HeadOf(PyObject* object) {
  return reinterpret_cast<GcHead*>(object) - 1;
}
GcHead* Next(const GcHead* head) {
  return reinterpret_cast<GcHead*>(head->next & ~uintptr_t{1});
}
GcHead* Prev(const GcHead* head) {
  return reinterpret_cast<GcHead*>(head->prev & ~uintptr_t{3});
}

// New objects join the end of the youngest generation's list, and none leaves
// it for an older one while the collector doesn't run.

// Of all threads: as long as one is left the collector doesn't begin by itself.
int num_marks = 0;
PyObject* thresholds = nullptr;  // As they were before the first; owned.

// gc.get_threshold() and gc.set_threshold(), whatever the program puts there.
PyObject* Function(const char* name) {
  const PyRef module = PyRef::Steal(PyImport_ImportModule("gc"));
  return module ? PyObject_GetAttrString(module.get(), name) : nullptr;
}
PyObject* GetThresholds() {
  static PyObject* get = Function("get_threshold");
  return get == nullptr ? nullptr : PyObject_CallNoArgs(get);
}
void SetThresholds(PyObject* values) {
  static PyObject* set = Function("set_threshold");
  if (set == nullptr || values == nullptr) return PyErr_Clear();
  const PyRef done = PyRef::Steal(PyObject_CallObject(set, values));
  if (!done) PyErr_Clear();
}

// More objects than fit into memory.
constexpr int kNever = std::numeric_limits<int>::max();

// The collector is still on, for who asks: it only never begins.
void HoldCollector() {
  if (num_marks++ > 0) return;
  const PyErrorKeeper keeper;
  thresholds = GetThresholds();
  if (thresholds == nullptr) return PyErr_Clear();
  const PyRef none = PyRef::Steal(
      Py_BuildValue("(iOO)", kNever, PyTuple_GET_ITEM(thresholds, 1),
                    PyTuple_GET_ITEM(thresholds, 2)));
  SetThresholds(none.get());
}

// Gives back what was, unless the program has set something else meanwhile.
void FreeCollector() {
  if (--num_marks > 0) return;
  const PyErrorKeeper keeper;
  const PyRef was = PyRef::Steal(std::exchange(thresholds, nullptr));
  const PyRef now = PyRef::Steal(GetThresholds());
  if (!now) return PyErr_Clear();
  if (PyLong_AsLong(PyTuple_GET_ITEM(now.get(), 0)) != kNever) return;
  SetThresholds(was.get());
}

}  // namespace

AgeMark::AgeMark() {
  HoldCollector();
  mark_ = PyRef::Steal(PyList_New(0));
  list_ = Next(HeadOf(mark_.get()));
}

AgeMark::~AgeMark() { FreeCollector(); }

void GiveThresholdsBack() { SetThresholds(thresholds); }

bool AgeMark::IsDisturbed() const {
  const GcHead* mark = HeadOf(mark_.get());
  const auto* list = static_cast<const GcHead*>(list_);
  const GcHead* at = Prev(list);
  while (at != mark && at != list) at = Prev(at);
  return at != mark;
}

AgeMark::Age AgeMark::Of(PyObject* object) const {
  if (!PyObject_IS_GC(object) || !PyObject_GC_IsTracked(object)) {
    return Age::kUnknown;
  }
  const GcHead* wanted = HeadOf(object);
  const GcHead* mark = HeadOf(mark_.get());
  const auto* list = static_cast<const GcHead*>(list_);
  for (const GcHead* at = Prev(list); at != mark && at != list; at = Prev(at)) {
    if (at == wanted) return Age::kYounger;
  }
  return Age::kOlder;
}

}  // namespace mica
