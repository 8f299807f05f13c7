// The contents of dicts and sets, in their order.

#ifndef MICA_PYTHON_CAPTURE_VALUES_DICTS_H_
#define MICA_PYTHON_CAPTURE_VALUES_DICTS_H_

#include <vector>

#include "python/interpreter/py_ref.h"

namespace mica {

// An OrderedDict's keys in its own order; another dict's as it iterates.
std::vector<PyRef> KeysOf(PyObject* dict);
std::vector<PyRef> ItemsOf(PyObject* set);
// What a defaultdict makes items by, or None; null for any other object.
PyRef FactoryOf(PyObject* dict);
// Whether items are read and set as those of a dict or of an OrderedDict are:
// a defaultdict's, a Counter's, those of a class that leaves that to its base.
bool HasPlainItems(PyObject* object);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_DICTS_H_
