// Whether a tensor is the one that it was.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_TENSOR_LIFE_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_TENSOR_LIFE_H_

#include <memory>

#include "python/interpreter/py_ref.h"

namespace mica {

// Tells a tensor from those that come after it at its address, and when it
// died. It keeps neither it nor its memory alive, and torch doesn't see it:
// torch.utils.swap_tensors swaps no tensor that has a weak reference, Python's
// or C++'s.
//
// It holds the counter of the tensor's writes, which its views share. So a view
// passes for the tensor, and as long as one is there it isn't over.
// Needs the GIL.
class TensorLife {
 public:
  // Null for a tensor made in inference mode, whose writes nobody counts.
  static std::shared_ptr<const TensorLife> Of(PyObject* tensor);

  virtual ~TensorLife() = default;
  virtual bool IsOf(PyObject* tensor) const = 0;
  virtual bool is_over() const = 0;
};

// The same of a tensor's memory, whichever tensor has it.
class MemoryLife {
 public:
  static std::shared_ptr<const MemoryLife> Of(PyObject* tensor);

  virtual ~MemoryLife() = default;
  virtual bool IsOf(PyObject* tensor) const = 0;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_TENSOR_LIFE_H_
