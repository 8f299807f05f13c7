// Why something isn't captured.

#ifndef MICA_PYTHON_CAPTURE_VALUES_REFUSAL_H_
#define MICA_PYTHON_CAPTURE_VALUES_REFUSAL_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "python/interpreter/frame_site.h"

namespace mica {

// What stands in the way of a capture, for the user to read. Empty: nothing.
struct Refusal {
  std::string reason;  // "calls builtins.print, whose effect can't be replayed"
  std::string mend;    // What the user can do about it; may be empty.
  UserLine at;
  // True if a later run of the same program may well be captured: it changed
  // state that it may have to change once only.
  bool transient = false;
  // True if it may be for the numbers that were followed.
  bool by_numbers = false;
  // Where the run was then, and at whatever else stood in the way after it;
  // empty if that isn't known.
  std::vector<FrameSites> places;

  explicit operator bool() const { return !reason.empty(); }
  std::string ToString() const {
    std::string text = reason;
    if (at.line != 0) absl::StrAppend(&text, " (", at.ToString(), ")");
    if (!mend.empty()) absl::StrAppend(&text, "; ", mend);
    return text;
  }
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_REFUSAL_H_
