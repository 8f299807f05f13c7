// What becomes of a value that Python code returns to code in C, which called
// it: whether that only hands it on to the program, or looks at it.

#ifndef MICA_PYTHON_INTERPRETER_HANDING_ON_H_
#define MICA_PYTHON_INTERPRETER_HANDING_ON_H_

#include "absl/functional/function_ref.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// True if the class of `object` has a function in Python of this name, which is
// interned.
bool HasPythonMethod(PyObject* object, PyObject* name);

// True if what Python code returns while `a` and `b` are operands (one object
// twice, of an operator with one operand) is the operator's own result: if each
// is a number or an instance of a class of Python's that builds on none in C.
bool HandsOnResult(PyObject* a, PyObject* b);

// True if the text that Python code returns while `object` is formatted is that
// of format() itself.
bool HandsOnText(PyObject* object, bool has_spec);
// The same of str(object).
bool HandsOnString(PyObject* object);
// The same of callable(object): true for str(), repr() and format() alone.
bool HandsOnTextBy(PyObject* callable, PyObject* object);

// True if the items that Python code gives while `object` is iterated over
// become the items of that iteration: not if a filter() asks whether they are
// true, or a map() passes them to a function in C. `is_followed` tells whether
// a call of an object leads to Python code at once.
bool HandsOnItems(PyObject* object,
                  absl::FunctionRef<bool(PyObject*)> is_followed);

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_HANDING_ON_H_
