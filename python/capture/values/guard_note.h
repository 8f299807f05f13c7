// What a user sees of a guard, and of a guard that failed.

#ifndef MICA_PYTHON_CAPTURE_VALUES_GUARD_NOTE_H_
#define MICA_PYTHON_CAPTURE_VALUES_GUARD_NOTE_H_

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/values/refusal.h"

namespace mica {

struct GuardNote {
  std::string path;  // A readable expression: "layers.0.training".
  UserLine at;       // Where the program read it first.
};

struct Miss {
  // Few and stable, to count by: "input", "state", "torch state", "host read",
  // "draw".
  std::string kind;
  GuardNote note;
  std::string expected;
  std::string got;

  // ToString() without the line.
  std::string Difference() const {
    return absl::StrCat(note.path, ": recorded ", expected, ", got ", got);
  }
  std::string ToString() const {
    std::string text = Difference();
    if (note.at.line != 0) {
      absl::StrAppend(&text, " (", note.at.ToString(), ")");
    }
    return text;
  }

  // Of an object of the state that is gone, by its path.
  static Miss OfGone(std::string path) {
    return {.kind = "state",
            .note = {.path = std::move(path)},
            .expected = "the same object",
            .got = "another, as that is gone"};
  }
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_GUARD_NOTE_H_
