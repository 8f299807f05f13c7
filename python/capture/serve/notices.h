// Warnings that a callable isn't served as whoever compiled it may think.

#ifndef MICA_PYTHON_CAPTURE_SERVE_NOTICES_H_
#define MICA_PYTHON_CAPTURE_SERVE_NOTICES_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "python/capture/values/refusal.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Why, what mends it, and the user's line that is the cause.
struct Notice {
  std::string text;
  UserLine at;
};

// The warnings of one callable: one at most of calls that run eagerly or in
// pieces, of records that serve nothing, of runs that fail, and of weights that
// stay in memory. They are
// Python's, of the class mica.MicaWarning, at the user's line.
//
// A call's result is never lost to one. Where a filter makes an error of any
// warning it is written to stderr: a compiled callable raises what eager
// raises. Where a filter names MicaWarning itself, the next call raises it
// before it does anything. Needs the GIL.
class Notices {
 public:
  enum class Kind { kNotWhole, kNotServed, kFailed, kNotOffloaded };

  // Whether one of its kind was added.
  bool IsTold(Kind kind) const { return is_told_[static_cast<size_t>(kind)]; }
  // Has the next Issue() tell it. False if one of its kind was told before.
  bool Add(Kind kind, Notice notice);
  // Issues what was added. No Python error may be set, and none is after it.
  void Issue();
  // True, with the Python error set, if an issued warning was made an error.
  bool Raise();

 private:
  std::array<bool, 4> is_told_ = {};
  std::vector<Notice> waiting_;
  PyRef error_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_SERVE_NOTICES_H_
