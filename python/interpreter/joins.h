// Where the ways from a jump meet again.

#ifndef MICA_PYTHON_INTERPRETER_JOINS_H_
#define MICA_PYTHON_INTERPRETER_JOINS_H_

#include <vector>

#include "python/interpreter/py_ref.h"

namespace mica {

// Of a code's instructions the first one to which all ways lead that come to an
// end of the function without an exception: its immediate postdominator.
class Joins {
 public:
  // At the function's end.
  static constexpr int kEnd = -1;

  explicit Joins(PyCodeObject* code);

  // That of the instruction at `unit`, as a unit.
  int Of(int unit) const;

 private:
  std::vector<int> by_unit_;
};

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_JOINS_H_
