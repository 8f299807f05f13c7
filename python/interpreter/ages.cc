// AgeMark, by the lists of the cyclic garbage collector.

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

}  // namespace

// New objects join the end of the youngest generation's list, and none leaves
// it for an older one while the collector is off.
namespace {

// Of all threads: as long as one is left the collector stays off.
int num_marks = 0;
bool was_enabled = false;

}  // namespace

AgeMark::AgeMark() {
  if (num_marks++ == 0) was_enabled = PyGC_Disable() != 0;
  mark_ = PyRef::Steal(PyList_New(0));
  list_ = Next(HeadOf(mark_.get()));
}

AgeMark::~AgeMark() {
  if (--num_marks == 0 && was_enabled) PyGC_Enable();
}

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
