#include "python/torch_side/autograd/leaf_order.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <utility>

#include "absl/algorithm/container.h"
#include "python/torch_side/autograd/node_facts.h"
#include "python/torch_side/tensors/passing_node.h"

namespace mica {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;

// What stands before a leaf. Of several the youngest is run first, and then,
// before the next, the leaf behind it.
c10::intrusive_ptr<PassingNode> TurnOf(Edge leaf) {
  auto turn = c10::make_intrusive<PassingNode>("MicaBackward");
  turn->add_input_metadata(
      static_cast<AccumulateGrad&>(*leaf.function).variable);
  turn->add_next_edge(std::move(leaf));
  return turn;
}

}  // namespace

void PutLeavesInOrder(torch::autograd::edge_list* edges) {
  const auto is_leaf = [](const Edge& edge) {
    return edge.is_valid() && IsLeaf(*edge.function);
  };
  const auto has_hooks = [&](const Edge& edge) {
    return is_leaf(edge) && HasHooks(*edge.function);
  };
  if (edges->size() < 2 || absl::c_none_of(*edges, has_hooks)) return;
  for (size_t i = edges->size(); i-- > 0;) {
    Edge& edge = (*edges)[i];
    if (!is_leaf(edge)) continue;
    edge = {TurnOf(std::move(edge)), 0};
  }
}

}  // namespace mica
