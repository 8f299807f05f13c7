// Tells a person at a terminal what takes so long.

#ifndef MICA_PYTHON_PROCESS_PROGRESS_H_
#define MICA_PYTHON_PROCESS_PROGRESS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace mica {

// What this thread does while the object lives: "watching the first run".
//
// If a task, with all of its phases, takes over a second and stderr is a
// terminal, one line there says for how long it has been at what; the line is
// taken away at the end. Otherwise nothing is printed, and nothing is started.
// The line is drawn by a thread of its own, which needs no Python and no GIL.
// Of several threads the one that began first is told of. MICA_PROGRESS=0
// turns it off.
class Progress {
 public:
  // A task: what a phase is a phase of, such as "capture of forward". Its
  // first phase is "watching the run".
  // Inside of another task it is a phase of that.
  explicit Progress(std::string task);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What the task that this thread has begun does from now on; nothing
  // happens if there is none. `phase` is a literal.
  static void SetPhase(const char* phase);

 private:
  class Line;
  Line* line_ = nullptr;  // Owned; null if this object draws nothing.
};

}  // namespace mica

#endif  // MICA_PYTHON_PROCESS_PROGRESS_H_
