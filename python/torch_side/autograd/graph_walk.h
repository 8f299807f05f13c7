// A walk over autograd's graph.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_GRAPH_WALK_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_GRAPH_WALK_H_

#include <Python.h>
#include <torch/csrc/autograd/function.h>

#include "absl/functional/function_ref.h"

namespace mica {

using NodeRef = c10::intrusive_ptr<torch::autograd::Node>;

// The node that made the tensor; null if none did, or if torch refuses to say.
NodeRef MakerOf(PyObject* tensor);
// Calls `visit` on each node behind `tensor` once, until it returns kEnd for
// one; goes on behind those for which it returned kGoOn.
enum class Visit { kGoOn, kSkip, kEnd };
void ForEachNode(PyObject* tensor, absl::FunctionRef<Visit(NodeRef)> visit);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_GRAPH_WALK_H_
