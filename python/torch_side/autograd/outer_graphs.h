// Graphs of autograd that were there before a run.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_OUTER_GRAPHS_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_OUTER_GRAPHS_H_

#include <memory>

#include "python/interpreter/py_ref.h"

namespace mica {

// The nodes behind tensors that came into a run with a history.
class OuterGraphs {
 public:
  OuterGraphs();
  ~OuterGraphs();
  OuterGraphs(const OuterGraphs&) = delete;
  OuterGraphs& operator=(const OuterGraphs&) = delete;

  // Before the program first uses it.
  void Add(PyObject* tensor);
  bool empty() const;
  // Whether going back from `root` comes to one. Requires the GIL.
  bool AreReachedFrom(PyObject* root) const;

 private:
  struct Nodes;
  std::unique_ptr<Nodes> nodes_;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_OUTER_GRAPHS_H_
