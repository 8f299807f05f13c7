// Objects that stand for another callable.

#ifndef MICA_PYTHON_CAPTURE_KNOWN_STAND_INS_H_
#define MICA_PYTHON_CAPTURE_KNOWN_STAND_INS_H_

#include "python/interpreter/py_ref.h"

namespace mica {

// From now on a watched call of an instance of `type`, or of a subtype, is one
// of the callable that `inside` gives, borrowed. One type may be told of; it
// lives as long as the process.
void SetStandIn(PyTypeObject* type, PyObject* (*inside)(PyObject*));
// The callable that `object` stands for; null if it is no such object.
// Borrowed.
PyObject* FindInside(PyObject* object);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_KNOWN_STAND_INS_H_
