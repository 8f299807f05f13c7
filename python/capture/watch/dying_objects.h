// Older objects that a run lets go of.

#ifndef MICA_PYTHON_CAPTURE_WATCH_DYING_OBJECTS_H_
#define MICA_PYTHON_CAPTURE_WATCH_DYING_OBJECTS_H_

#include "absl/container/flat_hash_map.h"
#include "python/capture/watch/container_changes.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// A watch keeps alive what it has noted. If the program gives up the last other
// reference to such an object, and somebody would notice its end (a weak
// reference, a finalizer), the run is refused, and the watch lets go of it at
// once: the program goes on as it does in eager.
class DyingObjects final : public WatchPart {
 public:
  DyingObjects(WatchGround& ground, ContainerChanges& containers)
      : WatchPart(ground), containers_(containers) {}

  // The step at hand may take something out of the state.
  void MayLose() { has_lost_ = true; }
  // It takes away what is there: null for nothing.
  void Lose(PyObject* object);
  void LoseAttribute(PyObject* owner, PyObject* name);
  void LoseItem(PyObject* container, PyObject* key);
  // It is done. Variables and operands may have held what an earlier one took.
  void EndStep();

 private:
  // Whether nothing but the watch holds it.
  bool IsLeft(PyObject* object, Py_ssize_t num_copies) const;
  void LetGoOf(PyObject* object);

  ContainerChanges& containers_;
  bool has_lost_ = false;
  // What was taken away and may have ended since.
  absl::flat_hash_map<PyObject*, PyRef> lost_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_DYING_OBJECTS_H_
