// What warnings.warn() and loggers are told.

#ifndef MICA_PYTHON_CAPTURE_WATCH_MESSAGE_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_MESSAGE_WATCH_H_

#include <array>
#include <string>

#include "absl/types/span.h"
#include "python/capture/effects/sinks.h"
#include "python/capture/watch/container_changes.h"
#include "python/capture/watch/host_call_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/watch_part.h"
#include "python/capture/watch/written_places.h"

namespace mica {

// A hit has no frames to find a message's line in: it is found during the
// watched run, and the hit tells it.
class MessageWatch final : public WatchPart {
 public:
  struct Parts {
    const ContainerChanges& containers;
    const WrittenPlaces& written;
    ObjectWatch& objects;
    HostCallWatch& host_calls;
  };
  MessageWatch(WatchGround& ground, const Parts& parts);

  void Warn(absl::Span<PyObject* const> args, PyObject* keyword_names);
  void Log(PyObject* method, absl::Span<PyObject* const> args,
           PyObject* keyword_names);

 private:
  // Refuses a warning.
  void RefuseToWarn(const std::string& why);
  // False, refused, if warnings aren't shown as they were when the run began,
  // or the filters ignore all of them.
  bool ShowsAsBefore();
  // Refuses a logger that has its own way to log by `method`.
  bool LogsAsOthers(PyObject* logger, PyObject* method);
  Sink SinkOfWarning(PyObject* category);
  Sink SinkOfLog(PyObject* logger, PyObject* level);

  const ContainerChanges& containers_;
  const WrittenPlaces& written_;
  ObjectWatch& objects_;
  HostCallWatch& host_calls_;
  PyRef filters_;                   // The list when the run began,
  std::array<PyObject*, 3> shown_;  // and what showed warnings.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_MESSAGE_WATCH_H_
