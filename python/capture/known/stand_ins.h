// Objects that stand for another callable.

#ifndef MICA_PYTHON_CAPTURE_KNOWN_STAND_INS_H_
#define MICA_PYTHON_CAPTURE_KNOWN_STAND_INS_H_

#include <string>

#include "python/interpreter/py_ref.h"

namespace mica {

// From now on a watched call of an instance of `type`, or of a subtype, is one
// of the callable that `inside` gives, borrowed. One type may be told of; it
// lives as long as the process.
void SetStandIn(PyTypeObject* type, PyObject* (*inside)(PyObject*));
// From now on a watched call of `function`, a Python function, is one of
// `other`, with the same arguments. Both are kept as long as the process lives.
void CallInPlace(PyObject* function, PyObject* other);
// The same of a function that may not be there yet, of this name in this
// module.
void CallInPlaceOf(const std::string& module, const std::string& name,
                   PyObject* other);
// What is called in place of `callable`: of a functools.partial of such a
// function one of the other. Null if nothing is.
PyRef FindInPlace(PyObject* callable);
// What does in Python what C code does otherwise, of this name in
// mica.in_python or another module of ours: so it is followed. Null, without a
// Python error, if the module can't be had.
PyRef FunctionInPython(const char* name, const char* module = "mica.in_python");
// The dict `items`, a defaultdict, as mica.in_python.FillingItems. Null as
// above.
PyRef FillingItems(PyObject* items);
// A tensor, to be indexed with `key` whatever it is indexed with, as
// mica.in_python.TakingItems. Null as above.
PyRef TakingItems(PyObject* tensor, PyObject* key);
// mica.formatting.Formatting. Null as above.
PyRef Formatting(PyObject* text);
// The callable that `object` stands for; null if it is no such object.
// Borrowed.
PyObject* FindInside(PyObject* object);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_KNOWN_STAND_INS_H_
