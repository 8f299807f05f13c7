// Which of autograd's nodes a backward pass runs together.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_GRAPH_PARTS_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_GRAPH_PARTS_H_

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace mica {

struct GraphParts {
  absl::flat_hash_map<torch::autograd::Node*, int> part_of;
  // By part: whether a node of it saved tensors, which one pass uses up.
  std::vector<bool> are_used_up;
  // Nodes that are run again in another part that they lead to by many edges,
  // of what comes to them (true), or what comes to other such nodes.
  absl::flat_hash_map<std::pair<torch::autograd::Node*, int>, bool> copies;
};

// Divides the nodes that `roots` lead to by edges that are `is_inside`: nodes
// that are reached from the same of the roots are one part. A part that saved
// nothing is one with the part that it leads to, if it leads to one alone, and
// not to a root: to run it for nothing gives zeros, but for a function in
// Python. A part comes after those that it leads to, as autograd's own nodes
// do. Requires the GIL.
//
// Where nodes that saved nothing lead to another part by many edges that no
// root ends (torch.stack() of all rounds of a loop, the last of which is a
// result, too), they are copied into that part: what goes from part to part
// doesn't grow with the rounds then.
GraphParts DivideGraph(
    absl::Span<torch::autograd::Node* const> roots,
    const std::function<bool(const torch::autograd::Edge&)>& is_inside);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_GRAPH_PARTS_H_
