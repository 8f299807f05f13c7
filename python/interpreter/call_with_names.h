// Calls with arguments by keyword.

#ifndef MICA_PYTHON_INTERPRETER_CALL_WITH_NAMES_H_
#define MICA_PYTHON_INTERPRETER_CALL_WITH_NAMES_H_

#include <vector>

#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// function(args…), the last of them by the names in a tuple, which may be null.
// Null with a Python error set if it raises.
inline PyRef CallWithNames(PyObject* function, absl::Span<const PyRef> args,
                           PyObject* names) {
  std::vector<PyObject*> passed;
  passed.reserve(args.size());
  for (const PyRef& arg : args) passed.push_back(arg.get());
  const Py_ssize_t num_names = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  return PyRef::Steal(PyObject_Vectorcall(
      function, passed.data(), passed.size() - static_cast<size_t>(num_names),
      names));
}

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_CALL_WITH_NAMES_H_
