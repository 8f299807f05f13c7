// Arguments that are likely to be another object at each call.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_PLAIN_INSTANCES_H_
#define MICA_PYTHON_CAPTURE_GUARDS_PLAIN_INSTANCES_H_

#include "absl/container/flat_hash_set.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Whether it is of a Python class, and all attributes: nobody calls it.
bool IsPlainInstance(PyObject* object);

// The instances that `argument`, such a one itself, is made of, if it holds
// lists, dicts or tensors, and else nothing but constants, tuples and classes:
// what keeps state from call to call (a cache of keys and values), not a module
// or a configuration. Empty for any other object.
absl::flat_hash_set<PyObject*> FindPlainInstances(PyObject* argument);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_PLAIN_INSTANCES_H_
