// How compiled callables take calls, for the whole process and for one thread.

#ifndef MICA_PYTHON_CAPTURE_SERVE_STANCE_H_
#define MICA_PYTHON_CAPTURE_SERVE_STANCE_H_

#include "absl/strings/string_view.h"
#include "python/interpreter/py_ref.h"

namespace mica {

enum class Stance {
  kDefault,          // Serve, or watch and record.
  kForceEager,       // Run what is inside, as if nothing had been compiled.
  kFailOnRecompile,  // Serve, or raise.
  kCheck,            // Serve, run what is inside too, and compare.
};

// Of the process. All of these under the GIL.
Stance CurrentStance();
void SetStance(Stance stance);
// "default", "force_eager", …; false for another word.
bool ParseStance(absl::string_view word, Stance* stance);
absl::string_view StanceName(Stance stance);

// Calls that this thread makes of compiled callables run eagerly while there
// was one more EnterDisabled() than LeaveDisabled().
void EnterDisabled();
void LeaveDisabled();
bool IsDisabled();

// The Python function that answers a call under kCheck, of the compiled
// callable, its positional arguments as a tuple and the others as a dict.
void SetChecker(PyRef checker);
PyObject* Checker();

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_SERVE_STANCE_H_
