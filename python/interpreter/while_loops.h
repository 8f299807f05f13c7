// Where a function's loops on a condition are.

#ifndef MICA_PYTHON_INTERPRETER_WHILE_LOOPS_H_
#define MICA_PYTHON_INTERPRETER_WHILE_LOOPS_H_

#include <vector>

#include "python/interpreter/instructions.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// `while` loops of a code: not those that go through an iterator, nor those
// whose instructions overlap another one's, as `continue` makes them.
class WhileLoops {
 public:
  // Of units. A round begins at `head`; `last` jumps back there.
  struct Loop {
    int head = 0;
    int last = 0;
    int before_last = 0;  // The instruction in front of that.

    bool Holds(int unit) const { return unit >= head && unit <= last; }
    // Whether the loop is left as its condition, which comes last, has it.
    bool EndsAt(int unit) const { return unit == last || unit == before_last; }
  };

  WhileLoops(PyCodeObject* code, const Instructions& instructions);

  // Null if none begins there.
  const Loop* FindAt(int head) const;

 private:
  std::vector<Loop> loops_;
};

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_WHILE_LOOPS_H_
