// Which sizes of which tensors a user expects to vary (mica.mark_dynamic).

#ifndef MICA_PYTHON_CAPTURE_GUARDS_DYNAMIC_SIZES_H_
#define MICA_PYTHON_CAPTURE_GUARDS_DYNAMIC_SIZES_H_

#include <set>

#include "python/interpreter/py_ref.h"

namespace mica {

// Whoever marks a tensor drops the mark before the object dies. Under the GIL.
void MarkDynamic(PyObject* tensor, int dim);
void DropDynamic(const void* tensor);
// The marked dims; empty for most tensors.
std::set<int> DynamicDims(PyObject* tensor);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_DYNAMIC_SIZES_H_
