// Calls with arguments by keyword.

#ifndef MICA_PYTHON_INTERPRETER_CALL_WITH_NAMES_H_
#define MICA_PYTHON_INTERPRETER_CALL_WITH_NAMES_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// How many arguments a tuple of names, which may be null, is for.
inline size_t NumNames(PyObject* names) {
  return names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
}

// function(args…), the last of them by the names in a tuple, which may be null.
// Null with a Python error set if it raises.
inline PyRef CallWithNames(PyObject* function, absl::Span<const PyRef> args,
                           PyObject* names) {
  std::vector<PyObject*> passed;
  passed.reserve(args.size());
  for (const PyRef& arg : args) passed.push_back(arg.get());
  return PyRef::Steal(PyObject_Vectorcall(
      function, passed.data(), passed.size() - NumNames(names), names));
}

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_CALL_WITH_NAMES_H_
