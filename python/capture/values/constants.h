// Python values that are compared by value: what a program can't tell apart.

#ifndef MICA_PYTHON_CAPTURE_VALUES_CONSTANTS_H_
#define MICA_PYTHON_CAPTURE_VALUES_CONSTANTS_H_

#include <string>

#include "python/interpreter/py_ref.h"

namespace mica {

// True for None, numbers (numpy's too), strings, bytes, torch's dtypes, devices
// and sizes, and tuples of them: immutable, and equal values do as well.
bool IsConstant(PyObject* object);
// A numpy array.
bool IsArray(PyObject* object);

// True if a program can't tell `now` from `was`: the same object, or an equal
// constant of the same type (floats bit for bit), tuples item by item. Runs no
// Python code. Null stands for an absent value.
bool SameValue(PyObject* was, PyObject* now);

// A short text of a value for messages; runs no Python code of the user's.
std::string DescribeValue(PyObject* value);

// "torch.nn.modules.linear.Linear".
std::string TypeName(PyTypeObject* type);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_CONSTANTS_H_
