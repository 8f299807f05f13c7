#include "python/capture/guards/host_expressions.h"

namespace mica {
namespace {

constexpr int kNeedsRun = -1;

}  // namespace

int HostExpressions::Push(const Node& node) {
  nodes_.push_back(node);
  return num_nodes() - 1;
}

int HostExpressions::AddOp(const HostOp* op, int a, int b) {
  Node node{.op = op, .operands = {a, b}};
  for (const int operand : node.operands) {
    node.is_drawn |= operand >= 0 && nodes_[operand].is_drawn;
  }
  return Push(node);
}

int HostExpressions::Add(const TapeHostOperand& operand,
                         absl::Span<const TapeHostValue> values,
                         const HostInputs& inputs) {
  Node node{.constant = operand.constant};
  if (operand.id < 0) return Push(node);
  const auto it = known_.find(operand.id);
  if (it != known_.end()) return it->second;
  known_[operand.id] = kNeedsRun;
  const TapeHostValue& value = values[operand.id];
  if (value.is_constant) {
    node.constant = value.value;
    if (value.size >= 0) node.size = operand.id;
  } else if (value.kind == TapeHostValue::Kind::kInput) {
    node.input = value.input;
    node.is_drawn = inputs.sources()[value.input].draw >= 0;
  } else if (value.kind == TapeHostValue::Kind::kOp) {
    const HostOp* op = FindHostOp(value.op);
    if (op == nullptr || value.operands.size() > 2) return kNeedsRun;
    int operands[2] = {-1, -1};
    for (size_t i = 0; i < value.operands.size(); ++i) {
      operands[i] = Add(value.operands[i], values, inputs);
      if (operands[i] < 0) return kNeedsRun;
    }
    return known_[operand.id] = AddOp(op, operands[0], operands[1]);
  } else {
    return kNeedsRun;
  }
  return known_[operand.id] = Push(node);
}

bool HostExpressions::Compute(absl::Span<const double> inputs,
                              absl::Span<const TapeHostValue> values, int end,
                              std::vector<double>* computed) const {
  computed->reserve(nodes_.size());
  for (int i = static_cast<int>(computed->size()); i < end; ++i) {
    const Node& node = nodes_[i];
    if (node.op == nullptr) {
      computed->push_back(node.input >= 0  ? inputs[node.input]
                          : node.size >= 0 ? values[node.size].value
                                           : node.constant);
      continue;
    }
    const auto operand = [&](int k) {
      return node.operands[k] < 0 ? 0 : (*computed)[node.operands[k]];
    };
    double result = 0;
    if (node.op->compute(operand(0), operand(1), &result) != nullptr) {
      return false;
    }
    computed->push_back(result);
  }
  return true;
}

}  // namespace mica
