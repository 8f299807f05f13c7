#include "python/torch_side/autograd/outer_graphs.h"

#include "absl/container/flat_hash_map.h"
#include "python/torch_side/autograd/graph_walk.h"

namespace mica {

struct OuterGraphs::Nodes {
  absl::flat_hash_map<const torch::autograd::Node*, NodeRef> known;
  bool is_unknown = false;  // Torch doesn't say what one was made by.
};

OuterGraphs::OuterGraphs() : nodes_(std::make_unique<Nodes>()) {}
OuterGraphs::~OuterGraphs() = default;

void OuterGraphs::Add(PyObject* tensor) {
  NodeRef node = MakerOf(tensor);
  if (!node) {
    nodes_->is_unknown = true;
    return;
  }
  nodes_->known.try_emplace(node.get(), node);
}

bool OuterGraphs::empty() const {
  return nodes_->known.empty() && !nodes_->is_unknown;
}

bool OuterGraphs::AreReachedFrom(PyObject* root) const {
  bool reached = nodes_->is_unknown;
  if (reached || empty()) return reached;
  ForEachNode(root, [&](const NodeRef& node) {
    reached = nodes_->known.contains(node.get());
    return reached ? Visit::kEnd : Visit::kGoOn;
  });
  return reached;
}

}  // namespace mica
