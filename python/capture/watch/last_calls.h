// Calls into the world outside that run the user's code. A hit makes them when
// all else is done, which is where the program makes them only if it does
// nothing afterwards that such code could see, or that could see what it did.

#ifndef MICA_PYTHON_CAPTURE_WATCH_LAST_CALLS_H_
#define MICA_PYTHON_CAPTURE_WATCH_LAST_CALLS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "python/capture/watch/watch_part.h"

namespace mica {

// Refuses what a run does after the first such call, if that call may have
// changed what it uses.
class LastCalls final : public WatchPart {
  // The first call that runs the user's code.
  struct UserCall {
    std::string title;
    UserLine at;
    FrameSites places;
    int64_t num_calls = 0;  // Operators called before it.
  };

 public:
  explicit LastCalls(WatchGround& ground) : WatchPart(ground) {}

  // The step at hand runs code of the user's, which may read and change
  // anything.
  void Begin(std::string title);
  // Whether one has: it and what follows come last.
  bool has_begun() const { return first_.has_value(); }
  // Operators called before it. Requires: has_begun().
  int64_t num_calls() const { return first_->num_calls; }
  // Refuses the run for it.
  void RefuseFirst(const std::string& why);

  // After that: something is used, read or looked at that it may have changed.
  void NoteUse(PyObject* object);
  void NoteRead(PyObject* value, const std::string& path);
  void NoteGlobal(PyObject* globals, PyObject* builtins, PyObject* name);
  void NoteAttribute(PyObject* owner, PyObject* name);
  void NoteTouch(PyObject* object);
  // While it lives, nothing counts as used.
  class Pause {
   public:
    explicit Pause(LastCalls& calls)
        : calls_(calls), first_(std::exchange(calls.first_, std::nullopt)) {}
    ~Pause() { calls_.first_ = std::move(first_); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    LastCalls& calls_;
    std::optional<UserCall> first_;
  };

 private:
  std::optional<UserCall> first_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_LAST_CALLS_H_
