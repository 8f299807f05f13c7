// The answers of functions that no field of TorchState stands for.

#ifndef MICA_PYTHON_CAPTURE_KNOWN_ASKED_STATES_H_
#define MICA_PYTHON_CAPTURE_KNOWN_ASKED_STATES_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// What each of the functions that are asked again (state_getters.h) gives at
// one moment: before a watched run, which may itself change it and change it
// back. Requires the GIL.
class AskedStates {
 public:
  struct Answer {
    PyObject* function = nullptr;  // For the life of the process.
    PyObject* argument = nullptr;  // Null: none.
    PyRef value;                   // Null: it raised.
  };

  AskedStates();

  // Null for one that isn't asked again.
  const Answer* Find(PyObject* function,
                     absl::Span<PyObject* const> args) const;
  // Of the one by which isinstance() and its like know that an answer of an
  // abstract base class is out of date.
  const Answer* RegistryToken() const;
  // A function that gives another answer now; "" if there is none.
  std::string FindChanged() const;

 private:
  std::vector<Answer> answers_;
};

// Asks a function again. Null with a Python error set if it raises.
PyRef Ask(PyObject* function, PyObject* argument);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_KNOWN_ASKED_STATES_H_
