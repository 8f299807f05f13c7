// Calls into the world outside that run no code of the user's.

#ifndef MICA_PYTHON_CAPTURE_EFFECTS_SINKS_H_
#define MICA_PYTHON_CAPTURE_EFFECTS_SINKS_H_

#include <vector>

#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Where a call's text goes, as far as that is known. What is no such call may
// run any code.
struct Sink {
  enum class Kind {
    kUnknown,
    kPrint,
    kLog,
    kWarning,
    kInC,     // A function in C that the user has annotated.
    kCache,   // Of functools.lru_cache, which has the result.
    kSilent,  // Does nothing that anybody sees, and never raises.
  };
  Kind kind = Kind::kUnknown;
  PyRef target;  // The file, or the logger; may be null.
  PyRef level;   // Of a log's message; may be null.
  PyRef values;  // A tuple of the arguments that text is made of; may be null.

  // Asks what there is now (mica/sinks.py): streams, handlers, formatters, what
  // shows warnings.
  bool RunsNoUserCode() const;
};

// True if text of `value`, a constant, runs no code of the user's.
bool IsPlainConstant(PyObject* value);
// The containers that `value` holds, itself included; none unless it is made of
// constants and plain containers alone.
std::vector<PyRef> PlainContainers(PyObject* value);
// What makes of a detached copy of `tensor` something with that one's text;
// null if the copy has it.
PyRef ShownAs(PyObject* tensor);
// The list in which warnings.catch_warnings() keeps them; null if none does.
PyRef ListOfWarnings();
// The dicts and lists that a logger, and what it tells, goes by.
std::vector<PyRef> PartsOfLog(PyObject* logger);
// The classes whose methods run when a logger is told something.
absl::Span<PyObject* const> LoggingClasses();

// True for an error that says that a call is to be made by the program itself.
bool IsLogsAnError(PyObject* error);
// A callable that takes anything and gives None; or raises `error`, if that
// isn't null.
PyRef MutedCall(PyObject* error);
// A callable that takes anything, and calls `callable` with `args`.
PyRef FixedCall(PyObject* callable, absl::Span<const PyRef> args,
                PyObject* keyword_names);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_EFFECTS_SINKS_H_
