// How BackwardTrace is made: autograd's own way through its graph, but in the
// midst of a capture, and only as far as the tensors that came in.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_TRACER_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_TRACER_H_

#include "python/torch_side/autograd/backward_trace.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <limits>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "python/torch_side/autograd/graph_parts.h"
#include "python/torch_side/autograd/node_facts.h"

namespace mica {

class BackwardTracer {
 public:
  using Edge = torch::autograd::Edge;
  using Node = torch::autograd::Node;
  using variable_list = torch::autograd::variable_list;

  BackwardTracer(absl::Span<PyObject* const> results,
                 absl::Span<PyObject* const> externals, uint64_t first_node,
                 Recorder* recorder);

  // Finds the nodes on the way, and which part each is of; why one can't be run
  // now and again later.
  std::string Explore();

  // Runs them. A node whose inputs have all arrived is ready; of those the
  // youngest comes first, and a leaf's before all others, as in autograd's own
  // engine. `gradients` are those of the results.
  void Run(absl::Span<const at::Tensor> gradients);

  bool has_python() const { return has_python_; }

  BackwardTrace Take();

 private:
  using Key = std::pair<Node*, uint32_t>;
  struct Step {
    int part = 0;
    int num_uses = 0;           // Edges that lead here and weren't passed.
    variable_list inputs;       // What arrived from nodes of its part, and
    variable_list arrived;      // the sums of what arrived from elsewhere.
    std::vector<int> entry_of;  // Of the part; by input, -1 if it is none.
    std::vector<bool> entries;  // Those that what arrived is made of.
  };
  struct Leaf {
    int external = 0;
    int part = -1;  // What leads here; if several do, each gives its own.
    bool is_of_several = false;
    int num_uses = 0;  // Edges that lead here and weren't passed.
    int turn = std::numeric_limits<int>::max();  // Of a leaf, among these.
    at::Tensor gradient;
    std::vector<bool> entries;

    static bool IsBefore(const Leaf* a, const Leaf* b) {
      return std::tie(a->turn, a->external) < std::tie(b->turn, b->external);
    }
  };
  struct Output {
    at::Tensor gradient;
    int external = -1;
    Key target = {nullptr, 0};
    int copy = -1;  // The part, if the target is that node's copy in it.
    std::vector<bool> entries;
  };
  struct Part {
    std::vector<BackwardTrace::Entry> entries;
    std::vector<Output> outputs;
    bool is_used_up = false;
  };
  struct Copied {  // As GraphParts has it.
    int part = 0;
    bool begins = false;
  };
  static bool IsOlder(const Node* a, const Node* b) {
    return a->sequence_nr() < b->sequence_nr();
  }

  static Key KeyOf(const Edge& edge) {
    return {edge.function.get(), edge.input_nr};
  }

  std::string See(const Edge& edge, std::vector<Node*>* open);

  // Whether the edge leads to a leaf that the program made and keeps to itself:
  // nobody will see its gradient.
  bool IsUnseenLeaf(const Edge& edge) const;

  // What comes from elsewhere begins the part anew.
  void Enter(Node* node, Step* step);

  void AddEntry(at::Tensor gradient, const std::string& name, int result,
                size_t input, Step* step);

  void RunNode(Node* node, Step* step);

  // What arrived, and the entries.
  variable_list Summed(Step* step);

  variable_list Outputs(Node* node, const Step& step, variable_list inputs);

  // Runs a node that was just run again, in another part.
  void RunCopy(Node* node, const Copied& copied, const Step& step,
               const variable_list& given);

  Step& CopyOf(Node* node, int part);
  const Copied* CopyIn(Node* node, int part) const;
  // Of the node that an edge leads to; null if it isn't run.
  const Step* Inner(const Edge& edge) const;
  void Pass(const Edge& edge, const at::Tensor& gradient, const Step& from);

  // From outside, or from another part.
  void Arrive(const Edge& edge, const at::Tensor& gradient);

  const SavedReads reads_;
  const uint64_t first_node_;
  Recorder& recorder_;
  std::vector<Edge> roots_;
  absl::flat_hash_set<Node*> root_nodes_;
  std::vector<c10::intrusive_ptr<Node>> pins_;
  absl::flat_hash_map<Key, int> results_;
  absl::flat_hash_map<Key, Leaf> leaves_;
  absl::flat_hash_map<Node*, Step> steps_;
  absl::flat_hash_map<Node*, std::vector<Copied>> copied_into_;
  std::map<std::pair<Node*, int>, Step> copies_;  // By node and part.
  absl::flat_hash_set<Node*> unseen_;  // Of leaves of the program's own.
  std::vector<Part> parts_;
  int num_entries_ = 0;
  int num_turns_ = 0;
  bool has_python_ = false;
  std::priority_queue<Node*, std::vector<Node*>, decltype(&IsOlder)> ready_{
      &IsOlder};
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_TRACER_H_
