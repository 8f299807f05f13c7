// What is known of a call by its callable alone.

#ifndef MICA_PYTHON_CAPTURE_WATCH_CALL_FACTS_H_
#define MICA_PYTHON_CAPTURE_WATCH_CALL_FACTS_H_

#include "absl/types/span.h"
#include "python/capture/known/purity.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// True for a method of a container that may change it.
bool ChangesContainer(PyObject* callable, PyObject* container);
// A function of numpy's own or a method of an array.
bool IsNumpyCall(PyObject* callable, absl::Span<PyObject* const> args);
// operator.is_ and its contrary.
bool AsksIdentity(PyObject* callable);
// Whether a call of code in C makes something of what its one iterable gives,
// which is `items`, and looks no further.
bool TakesItems(PyObject* callable, absl::Span<PyObject* const> args,
                PyObject** items);
// What a weak dict or set calls when what is in it dies.
bool ForgetsItem(PyObject* callback);
// Whether code in C hands its arguments on to code in Python as they are.
bool HandsOnArguments(PyObject* callable);
// True for calls of whose arguments BuiltinCalls itself says which numbers are
// followed: those are handed on, computed with, passed to an operator, or
// looked at for their types. All other calls make the numbers that they get
// exact.
bool FollowsNumbers(CallKind kind);
// True for what is called again at each hit, with the arguments that it got.
bool IsHostCall(PyObject* callable);
// True if all that a graph of TorchScript, or a block in it, does is what the
// dispatcher sees. May leave an error set.
bool IsPureScript(PyObject* owner, int depth);
// True for C code that depends on nothing but its arguments.
bool IsPureCall(PyObject* callable);

// Whether what a call does, or gives, may be another one each time though its
// arguments are the same.
bool MayDiffer(PyObject* callable);
// Whether it gives an iterator over what it gets.
bool MakesIterator(PyObject* callable, absl::Span<PyObject* const> args);
// Whether dict.update(*args, **keywords) sets items as the program itself
// would: of a plain dict, by keywords and by another plain dict.
bool UpdatesDict(absl::Span<PyObject* const> args);
// Whether Python code may run when an iterator gives its items.
bool RunsForItems(PyObject* iterator);
// Whether a tensor's attribute of this name tells what isn't among its sizes
// and its like.
bool TellsMoreThanSizes(PyObject* name);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_CALL_FACTS_H_
