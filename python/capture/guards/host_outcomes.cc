#include "python/capture/guards/host_outcomes.h"

#include <utility>

namespace mica {
namespace {

constexpr int kNotAdded = -2;
constexpr int kNeedsRun = -1;

}  // namespace

HostOutcomes::HostOutcomes(absl::Span<const TapeHostValue> values,
                           absl::Span<const HostValues::Comparison> comparisons,
                           const HostInputs& inputs) {
  std::vector<int> known(values.size(), kNotAdded);
  for (const HostValues::Comparison& comparison : comparisons) {
    Node node{.op = FindHostOp(comparison.op)};
    node.operands[0] = Add(comparison.a, values, inputs, known);
    node.operands[1] = Add(comparison.b, values, inputs, known);
    if (node.operands[0] < 0 || node.operands[1] < 0) continue;
    for (const int operand : node.operands) {
      node.is_drawn |= nodes_[operand].is_drawn;
    }
    outcomes_.push_back({.node = static_cast<int>(nodes_.size()),
                         .recorded = comparison.outcome,
                         .at = comparison.at});
    nodes_.push_back(node);
  }
  if (outcomes_.empty()) nodes_.clear();
}

int HostOutcomes::Add(const TapeHostOperand& operand,
                      absl::Span<const TapeHostValue> values,
                      const HostInputs& inputs, std::vector<int>& known) {
  Node node{.constant = operand.constant};
  if (operand.id < 0) {
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }
  if (known[operand.id] != kNotAdded) return known[operand.id];
  const TapeHostValue& value = values[operand.id];
  known[operand.id] = kNeedsRun;
  if (value.is_constant) {
    node.constant = value.value;
    if (value.size >= 0) node.size = operand.id;
  } else if (value.kind == TapeHostValue::Kind::kInput) {
    node.input = value.input;
    node.is_drawn = inputs.sources()[value.input].draw >= 0;
  } else if (value.kind == TapeHostValue::Kind::kOp) {
    node.op = FindHostOp(value.op);
    if (node.op == nullptr || value.operands.size() > 2) return kNeedsRun;
    for (size_t i = 0; i < value.operands.size(); ++i) {
      node.operands[i] = Add(value.operands[i], values, inputs, known);
      if (node.operands[i] < 0) return kNeedsRun;
      node.is_drawn |= nodes_[node.operands[i]].is_drawn;
    }
  } else {
    return kNeedsRun;
  }
  nodes_.push_back(node);
  return known[operand.id] = static_cast<int>(nodes_.size()) - 1;
}

bool HostOutcomes::Check(absl::Span<const double> inputs,
                         absl::Span<const TapeHostValue> values,
                         Miss* miss) const {
  if (outcomes_.empty()) return true;
  std::vector<double> computed(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.op == nullptr) {
      computed[i] = node.input >= 0  ? inputs[node.input]
                    : node.size >= 0 ? values[node.size].value
                                     : node.constant;
      continue;
    }
    const auto operand = [&](int k) {
      return node.operands[k] < 0 ? 0 : computed[node.operands[k]];
    };
    if (node.op->compute(operand(0), operand(1), &computed[i]) != nullptr) {
      return true;
    }
  }
  for (const Outcome& outcome : outcomes_) {
    if ((computed[outcome.node] != 0) == outcome.recorded) continue;
    if (miss != nullptr) {
      *miss = {.kind = nodes_[outcome.node].is_drawn ? "draw" : "host read",
               .note = {.path = "the outcome of the comparison of numbers at " +
                                outcome.at.ToString()},
               .expected = "the recorded one",
               .got = "another"};
    }
    return false;
  }
  return true;
}

}  // namespace mica
