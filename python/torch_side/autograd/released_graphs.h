// Graphs of autograd that a backward pass has used up.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_RELEASED_GRAPHS_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_RELEASED_GRAPHS_H_

#include <memory>

#include "python/interpreter/py_ref.h"

namespace mica {

// The nodes behind tensors whose graphs a backward pass has used up. Those for
// which autograd saves no tensors can be gone through again.
class ReleasedGraphs {
 public:
  ReleasedGraphs();
  ~ReleasedGraphs();
  ReleasedGraphs(const ReleasedGraphs&) = delete;
  ReleasedGraphs& operator=(const ReleasedGraphs&) = delete;

  // Before the pass: all that `root` was made of.
  void Add(PyObject* root);
  // After it: true if going back through the tensor raises. Requires the GIL.
  bool Has(PyObject* tensor) const;

 private:
  struct Nodes;
  std::unique_ptr<Nodes> nodes_;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_RELEASED_GRAPHS_H_
