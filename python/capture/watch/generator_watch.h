// What a program does with torch's own random generators.

#ifndef MICA_PYTHON_CAPTURE_WATCH_GENERATOR_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_GENERATOR_WATCH_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "python/capture/watch/number_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Has their states read, set and seeded by operators, in the order of the
// program's draws.
class GeneratorWatch final : public WatchPart {
 public:
  GeneratorWatch(WatchGround& ground, ObjectWatch& objects,
                 NumberWatch& numbers)
      : WatchPart(ground), objects_(objects), numbers_(numbers) {}

  // torch.manual_seed() or a method of a torch.Generator.
  void Call(PyObject* callable, absl::Span<PyObject* const> args,
            PyObject* keyword_names);
  // torch.Generator().
  void Make(PyTypeObject* type, absl::Span<PyObject* const> args);

 private:
  // What such a call takes: a state or a seed. False if it is neither.
  bool Pass(absl::string_view word, PyObject* value);

  ObjectWatch& objects_;
  NumberWatch& numbers_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_GENERATOR_WATCH_H_
