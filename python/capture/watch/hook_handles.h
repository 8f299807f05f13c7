// Handles of hooks that a program registers.

#ifndef MICA_PYTHON_CAPTURE_WATCH_HOOK_HANDLES_H_
#define MICA_PYTHON_CAPTURE_WATCH_HOOK_HANDLES_H_

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// torch gives each hook a number that no other has in a process, the id of its
// RemovableHandle, which is its key in dicts of hooks. Hits register nothing:
// they count none. So the number stands for the hook, as an address does for
// its object, and may be nothing but a key. What the run registered with older
// objects it has to remove again.
class HookHandles final : public WatchPart {
 public:
  explicit HookHandles(WatchGround& ground) : WatchPart(ground) {}

  // A call is about to be made.
  void Call(PyObject* callable);
  // What the step at hand gave.
  void EndStep(PyObject* result);
  // Whether it is the number of a hook that the run registered.
  bool IsId(PyObject* object) const {
    return !ids_.empty() && ids_.contains(object);
  }
  // Whether `dict` has hooks of the run's alone, or none.
  bool HasOwnOnly(PyObject* dict) const;
  // A method that moves such a hook among others.
  bool Moves(PyObject* callable, absl::Span<PyObject* const> args) const;

 private:
  bool makes_handle_ = false;
  absl::flat_hash_set<PyObject*> ids_;  // Kept alive as addresses are.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_HOOK_HANDLES_H_
