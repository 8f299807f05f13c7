// Where a program is, as records and refusals keep it.

#ifndef MICA_PYTHON_INTERPRETER_FRAME_SITE_H_
#define MICA_PYTHON_INTERPRETER_FRAME_SITE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// A line of the user's own code; line 0 stands for none known.
struct UserLine {
  std::string file;
  int32_t line = 0;
  std::string ToString() const {
    return line == 0 ? "" : absl::StrCat(file, ":", line);
  }
};

// How far a function is.
struct FrameSite {
  PyRef code;
  PyRef module;  // The torch.nn.Module that it is a method of, if it is one.
  int32_t unit = 0;  // Of the code, that runs: an instruction or its cache.
};
// The functions under way at one moment that can be split, the outermost first.
using FrameSites = std::vector<FrameSite>;

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_FRAME_SITE_H_
