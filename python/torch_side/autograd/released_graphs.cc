#include "python/torch_side/autograd/released_graphs.h"

#include "absl/container/flat_hash_map.h"
#include "python/torch_side/autograd/graph_walk.h"
#include "python/torch_side/autograd/node_facts.h"

namespace mica {
struct ReleasedGraphs::Nodes {
  SavedReads reads;
  absl::flat_hash_map<const torch::autograd::Node*, NodeRef> known;
};

ReleasedGraphs::ReleasedGraphs() : nodes_(std::make_unique<Nodes>()) {}
ReleasedGraphs::~ReleasedGraphs() = default;

void ReleasedGraphs::Add(PyObject* root) {
  ForEachNode(root, [this](const NodeRef& node) {
    const bool is_new = nodes_->known.try_emplace(node.get(), node).second;
    return is_new ? Visit::kGoOn : Visit::kSkip;
  });
}

bool ReleasedGraphs::Has(PyObject* tensor) const {
  if (nodes_->known.empty()) return false;
  bool has = false;
  ForEachNode(tensor, [&](const NodeRef& node) {
    if (!nodes_->known.contains(node.get())) return Visit::kGoOn;
    has = HasReleasedTensors(node.get(), nodes_->reads);
    return has ? Visit::kEnd : Visit::kGoOn;
  });
  return has;
}

}  // namespace mica
