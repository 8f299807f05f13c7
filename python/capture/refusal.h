// Why something isn't captured.

#ifndef MICA_PYTHON_CAPTURE_REFUSAL_H_
#define MICA_PYTHON_CAPTURE_REFUSAL_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mica {

// A line of the user's own code; line 0 stands for none known.
struct UserLine {
  std::string file;
  int32_t line = 0;
  std::string ToString() const {
    return line == 0 ? "" : absl::StrCat(file, ":", line);
  }
};

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

  explicit operator bool() const { return !reason.empty(); }
  std::string ToString() const {
    std::string text = reason;
    if (at.line != 0) absl::StrAppend(&text, " (", at.ToString(), ")");
    if (!mend.empty()) absl::StrAppend(&text, "; ", mend);
    return text;
  }
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_REFUSAL_H_
