// What an object leads to.

#ifndef MICA_PYTHON_CAPTURE_VALUES_HELD_H_
#define MICA_PYTHON_CAPTURE_VALUES_HELD_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// How far an object is looked into.
enum class Through {
  // As code in C looks that asks no Python code: into containers, iterators,
  // exceptions and the like; of an instance of a Python class, into what its
  // base in C has. Not into sets: their members were looked at when hashed.
  kCode,
  kAttributes,  // And into the attributes of instances.
};

// Calls `visit` on `object` and on all that it leads to, each once but for
// objects without items. What is the same for all code, such as modules, and
// tensors lead to nothing. `visit` runs no Python code.
void ForEachHeld(PyObject* object, Through through,
                 absl::FunctionRef<void(PyObject*)> visit);

// Of a tp_traverse: appends `object` to the std::vector<PyObject*> at `to`.
int AppendVisited(PyObject* object, void* to);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_HELD_H_
