// Items of tables by numbers that vary: rates[step].

#ifndef MICA_PYTHON_CAPTURE_WATCH_TABLE_READS_H_
#define MICA_PYTHON_CAPTURE_WATCH_TABLE_READS_H_

#include "python/capture/watch/container_changes.h"
#include "python/capture/watch/draw_watch.h"
#include "python/capture/watch/watch_part.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// A schedule may be a list, a tuple or an array of numbers that the state
// holds, of which each step takes the next one:
//
//   group["lr"] = self.rates[self.step]
//   self.step += 1
//
// Once the index was seen to vary, each hit takes the item that is there,
// before it computes, so that neither the index nor what is in the table has to
// be what it was. That is so while the run hasn't changed the table, and for an
// index that is known before a run (HostValues::NeedsNoRun()).
class TableReads final : public WatchPart {
 public:
  TableReads(WatchGround& ground, const ContainerChanges& containers,
             DrawWatch& draws)
      : WatchPart(ground), containers_(containers), draws_(draws) {}

  // True if that is all there is to it.
  bool UseItem(PyObject* container, PyObject* key);
  // What the step at hand gave.
  void EndStep(PyObject** top);

 private:
  bool IsTable(PyObject* container);

  const ContainerChanges& containers_;
  DrawWatch& draws_;
  PyRef item_;  // What the step at hand gives in place of what it finds.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_TABLE_READS_H_
