// Numpy's arrays, and tensors whose memory they share.

#ifndef MICA_PYTHON_CAPTURE_WATCH_ARRAY_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_ARRAY_WATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "python/capture/watch/watch_part.h"

namespace mica {

class ArrayWatch final : public WatchPart {
 public:
  explicit ArrayWatch(WatchGround& ground) : WatchPart(ground) {}

  // What the step at hand gave; may be null.
  void EndStep(PyObject* result);
  // What a step that entered another function gave in the end.
  void CameBack(PyObject* result);
  // A tensor whose memory numpy can write too.
  void Expose(PyObject* tensor);
  // What numpy does on overflow, division by 0 and the like.
  void TouchContext();
  // Of a tensor whose memory a numpy array shares and that isn't as it was
  // then; "" if there is none.
  std::string ChangedExposed() const;

 private:
  // An array that numpy gave: a new one, unless it is one of its arguments.
  void AddNew(PyObject* array);
  // What the step at hand took from an array.
  void AddTaken(PyObject* result);
  // A new tensor that holds Python's values only, if it is one.
  void AddMade(PyObject* result);
  // After a step with numpy's arrays: refuses what was written past torch, even
  // if it is undone later.
  void CheckSharedMemory();

  struct Exposed {
    PyRef tensor;
    int64_t version = 0;
    std::string bytes;
  };
  std::vector<Exposed> exposed_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_ARRAY_WATCH_H_
