#include "python/torch_side/autograd/released_graphs.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "python/torch_side/autograd/node_facts.h"

namespace mica {
namespace {

using NodeRef = c10::intrusive_ptr<torch::autograd::Node>;

// Calls `visit` on each node behind `tensor` once, until it returns false for
// one; goes on behind those for which it returned true.
enum class Visit { kGoOn, kSkip, kEnd };
void ForEachNode(PyObject* tensor, absl::FunctionRef<Visit(NodeRef)> visit) {
  std::vector<NodeRef> open;
  try {
    NodeRef node = THPVariable_Unpack(tensor).grad_fn();
    if (node) open.push_back(std::move(node));
  } catch (const std::exception&) {
    return;  // A view that torch refuses to say it of.
  }
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

}  // namespace

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
