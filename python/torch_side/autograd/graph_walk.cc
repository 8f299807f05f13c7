#include "python/torch_side/autograd/graph_walk.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace mica {

NodeRef MakerOf(PyObject* tensor) {
  try {
    return THPVariable_Unpack(tensor).grad_fn();
  } catch (const std::exception&) {
    return NodeRef();  // A view that torch refuses to say it of.
  }
}

void ForEachNode(PyObject* tensor, absl::FunctionRef<Visit(NodeRef)> visit) {
  std::vector<NodeRef> open;
  if (NodeRef node = MakerOf(tensor)) open.push_back(std::move(node));
  absl::flat_hash_set<const torch::autograd::Node*> seen;
  while (!open.empty()) {
    const NodeRef node = std::move(open.back());
    open.pop_back();
    if (!seen.insert(node.get()).second) continue;
    const Visit next = visit(node);
    if (next == Visit::kEnd) return;
    if (next == Visit::kSkip) continue;
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.function) open.push_back(edge.function);
    }
  }
}

}  // namespace mica
