// What autocast casts and keeps: of a weight in float32 one copy in lower
// precision, until its outermost block ends, whatever is written meanwhile.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_KEPT_CASTS_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_KEPT_CASTS_H_

#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

bool IsAutocastBlockOpen();
// Whether what a run casts on this thread may be kept beyond it.
bool AreCastsKept();

// The cast of `weight` that is kept, of the dtype of `like` and tracked by
// autograd if that requires grad; made and kept if there is none. Null if
// another is kept, or none can be.
PyRef KeptCast(PyObject* weight, const TensorMeta& like);

// The same, but none is made.
PyRef FindKeptCast(PyObject* weight, const TensorMeta& like);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_KEPT_CASTS_H_
