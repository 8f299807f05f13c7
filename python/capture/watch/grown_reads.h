// What a program reads of a list or deque that it also adds to.

#ifndef MICA_PYTHON_CAPTURE_WATCH_GROWN_READS_H_
#define MICA_PYTHON_CAPTURE_WATCH_GROWN_READS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "python/capture/watch/container_changes.h"
#include "python/capture/watch/draw_watch.h"
#include "python/capture/watch/watch_part.h"
#include "python/capture/watch/written_places.h"

namespace mica {

// A list of losses is longer at each call: a guard of what is in it would hold
// once. So of an older list or deque that the run appends to, what a program
// asks for is told in two parts. What was added in this call are the run's own
// values. Of what was there before, each hit asks for a number, before it
// computes: how many items, their sum, the largest, one by its index. Programs
// go on from there by arithmetic that is followed:
//
//   losses.append(loss.item())              # loss is the run's own.
//   mean = sum(losses) / len(losses)        # (asked + loss) / (asked + 1)
//
// What can't be told so is left to others: they guard all that is in it, if
// the program reads it first, or refuse.
class GrownReads final : public WatchPart {
 public:
  GrownReads(WatchGround& ground, const ContainerChanges& containers,
             const WrittenPlaces& written, DrawWatch& draws)
      : WatchPart(ground),
        containers_(containers),
        written_(written),
        draws_(draws) {}

  // Each is true if that is all there is to it.
  bool Call(PyObject* callable, absl::Span<PyObject* const> args,
            PyObject* keyword_names);
  bool UseItem(PyObject* container, PyObject* key);
  bool TestTruth(PyObject* container);
  // What the step at hand gave.
  void EndStep(PyObject** top);

 private:
  struct Grown {
    PyObject* container = nullptr;
    PyRef before;  // As the run found it: a copy, or itself.
    Py_ssize_t num_before = 0;
    std::vector<PyRef> added;  // In order.
    bool is_bounded = false;   // A deque that drops what is too much.
  };
  // None if `container` is none such.
  std::optional<Grown> Find(PyObject* container);
  // Whether nothing but what the run is known to have added was added.
  bool IsAsAdded(const Grown& grown) const;
  // What `function` of mica.grown says of what was there: a number that is
  // followed, or another constant, which each hit has to give again. Null with
  // a refusal.
  PyRef Ask(const Grown& grown, const char* function, PyRef argument);
  // One of the numbers that were there, which stands for what eager meets.
  PyRef AskForItem(const Grown& grown, Py_ssize_t at);
  bool UseIndex(const Grown& grown, Py_ssize_t index);
  bool UseTail(const Grown& grown, Py_ssize_t count);

  const ContainerChanges& containers_;
  const WrittenPlaces& written_;
  DrawWatch& draws_;
  // What the step at hand gives in place of the items that it finds, from the
  // first on; itself if `gives_item_`.
  std::vector<PyRef> items_;
  bool gives_item_ = false;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_GROWN_READS_H_
