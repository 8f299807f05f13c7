// Numbers that follow from a record's host inputs alone.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_HOST_EXPRESSIONS_H_
#define MICA_PYTHON_CAPTURE_GUARDS_HOST_EXPRESSIONS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "kernels/reference/host_arithmetic.h"
#include "python/capture/guards/host_inputs.h"

namespace mica {

// What the host computes of promoted scalars and draws before a run computes
// anything. Immutable once all nodes are added.
class HostExpressions {
 public:
  // The node of an entry of `values`, as HostValues::Finish() gives them, or of
  // a constant; -1 for what needs a run.
  int Add(const TapeHostOperand& operand,
          absl::Span<const TapeHostValue> values, const HostInputs& inputs);
  // The node of an operator of two nodes.
  int AddOp(const HostOp* op, int a, int b);
  // Whether it follows from a draw.
  bool is_drawn(int node) const { return nodes_[node].is_drawn; }

  // Computes the nodes before `end` that `computed` doesn't have yet, of host
  // inputs and of the numbers of the run's tape, of which sizes count; false if
  // one can't be computed.
  bool Compute(absl::Span<const double> inputs,
               absl::Span<const TapeHostValue> values, int end,
               std::vector<double>* computed) const;
  int num_nodes() const { return static_cast<int>(nodes_.size()); }

 private:
  struct Node {
    const HostOp* op = nullptr;  // Null: an input, a size or a constant.
    int input = -1;
    int size = -1;  // An entry of the tape's numbers.
    double constant = 0;
    int operands[2] = {-1, -1};  // Nodes before this one.
    bool is_drawn = false;
  };
  int Push(const Node& node);

  std::vector<Node> nodes_;
  absl::flat_hash_map<int32_t, int> known_;  // By entry.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_HOST_EXPRESSIONS_H_
