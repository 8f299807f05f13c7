// What autocast casts and keeps: of a weight in float32 one copy in lower
// precision, until its outermost block ends, whatever is written meanwhile.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_KEPT_CASTS_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_KEPT_CASTS_H_

#include <cstdint>

#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

bool IsAutocastBlockOpen();

// While it lives no block of autocast is open, and autocast of the CPU is off
// and as torch has it at first, for Python code too.
class OutsideAutocast {
 public:
  OutsideAutocast();
  ~OutsideAutocast();
  OutsideAutocast(const OutsideAutocast&) = delete;
  OutsideAutocast& operator=(const OutsideAutocast&) = delete;

 private:
  bool was_on_ = false;
  bool kept_casts_ = false;
  int8_t dtype_ = 0;  // Of torch.
  int depth_ = 0;
};
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
