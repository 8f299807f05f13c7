// What a piece of a function leaves in variables that nobody reads any more.

#ifndef MICA_PYTHON_CAPTURE_VALUES_UNREAD_H_
#define MICA_PYTHON_CAPTURE_VALUES_UNREAD_H_

#include <Python.h>

#include "python/interpreter/py_ref.h"

namespace mica {

// True if nobody can tell whether `object`, which a run made, dies with the run
// or later: neither it nor what it holds has a finalizer or a weak reference.
bool MayDieEarly(PyObject* object);

// True if it, or what it holds, runs Python when it dies: what would keep it
// alive, a record's guard say, could be told.
bool RunsPythonAtDeath(PyObject* object);

// What only this run has of an argument of a piece, and a record would keep
// alive in vain: it is guarded by its identity (InputGuards) and can't be
// referenced weakly. Borrowed, or null.
PyObject* FindOfOneRun(PyObject* arg);

// What a piece told (mica/pieces/split.py), a copy: of the unread variables,
// those that may die with the run are None. The same object if that changes
// nothing.
PyRef WithoutUnread(PyObject* told);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_UNREAD_H_
