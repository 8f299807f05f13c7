// What `sum()` has of floats before it gives their sum.

#ifndef MICA_PYTHON_CAPTURE_KNOWN_SUM_PARTS_H_
#define MICA_PYTHON_CAPTURE_KNOWN_SUM_PARTS_H_

#include "python/interpreter/py_ref.h"

namespace mica {

// Of a list or tuple of ints and floats, added to the int 0 as CPython does
// from 3.12 on: the sum of those so far, and the float that was lost in
// rounding it. The tuple of both; None where it would go on in another way
// (other classes, ints that no long of C's can be). Null with an error set.
PyRef SumParts(PyObject* items);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_KNOWN_SUM_PARTS_H_
