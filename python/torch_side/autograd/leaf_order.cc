#include "python/torch_side/autograd/leaf_order.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "python/torch_side/autograd/node_facts.h"

namespace mica {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;

// Stands before a leaf. Of several the youngest is run first, and then, before
// the next, the leaf behind it.
struct LeafTurn final : torch::autograd::Node {
  explicit LeafTurn(Edge leaf) {
    add_input_metadata(static_cast<AccumulateGrad&>(*leaf.function).variable);
    add_next_edge(std::move(leaf));
  }

  std::string name() const override { return "MicaBackward"; }

  torch::autograd::variable_list apply(
      torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

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
    edge = {c10::make_intrusive<LeafTurn>(std::move(edge)), 0};
  }
}

}  // namespace mica
