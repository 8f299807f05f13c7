// Sizes among Python's numbers.

#include <utility>

#include "python/capture/values/host_values.h"

namespace mica {

HostValues::Id HostValues::AddSize(PyObject* number, TapeTensorId tensor,
                                   int dim) {
  has_sizes_ = true;
  Node node{.is_size = true,
            .size_index = num_sizes_++,
            .tensor = tensor,
            .dim = dim};
  return Add(number, std::move(node));
}

HostValues::Id HostValues::AddRound(PyObject* number, int loop, int round) {
  has_sizes_ = true;
  return Add(number, {.is_of_round = true,
                      .is_size = true,
                      .size_index = num_sizes_++,
                      .loop = loop,
                      .round = round});
}

HostValues::Id HostValues::AddCounter(PyObject* number) {
  has_sizes_ = true;
  Node node{.is_of_round = true, .is_size = true, .size_index = num_sizes_++};
  node.tape.kind = TapeHostValue::Kind::kOp;
  node.tape.op = "mica.int_add";
  node.tape.operands = {{.constant = NumberOf(number).value_or(0)},
                        {.constant = 0}};
  return Add(number, std::move(node));
}

void HostValues::TakeForSize(PyObject* number) {
  const Id id = Find(number);
  Node& node = nodes_[id];
  // One object from two places.
  if (node.is_exact) return;
  has_sizes_ = true;
  node.is_size = true;
  node.size_index = num_sizes_++;
  node.given = static_cast<int32_t>(given_sizes_.size());
  given_sizes_.push_back(id);
}

std::vector<NumberSource> HostValues::SizeSources() const {
  std::vector<NumberSource> sources;
  for (const Id id : given_sizes_) sources.push_back(nodes_[id].source);
  return sources;
}

void HostValues::PinSize(Id id) {
  if (nodes_[id].is_exact) return;
  nodes_[id].is_exact = true;
  nodes_[id].pinned_at = CurrentUserLine();
}

bool HostValues::IsGivenInt(TapeHostOperand operand) const {
  if (operand.id < 0) return true;
  const Node& node = nodes_[operand.id];
  if (!node.is_int) return false;
  if (node.tape.kind == TapeHostValue::Kind::kInput) {
    return node.source.draw < 0;
  }
  return node.tape.kind == TapeHostValue::Kind::kOp &&
         absl::c_all_of(node.tape.operands,
                        [this](const auto& one) { return IsGivenInt(one); });
}

void HostValues::MarkGivenInts(int32_t since) {
  const auto count = static_cast<size_t>(num_comparisons());
  for (size_t i = static_cast<size_t>(since); i < count; ++i) {
    const TapeHostOperand a = comparisons_[i].a, b = comparisons_[i].b;
    if (!IsGivenInt(a) || !IsGivenInt(b)) continue;
    for (const TapeHostOperand& operand : {a, b}) {
      if (operand.id >= 0) MarkExactId(operand.id);
    }
  }
}

void HostValues::MarkCountedInts(std::optional<Comparison>& before) {
  if (comparisons_.empty()) return;
  const Comparison now = comparisons_.back();
  const bool is_given = IsGivenInt(now.a) && IsGivenInt(now.b);
  if (is_given && before.has_value() && before->op == now.op &&
      (before->a.constant != now.a.constant) !=
          (before->b.constant != now.b.constant)) {
    for (const TapeHostOperand& operand : {now.a, now.b}) {
      if (operand.id >= 0) MarkExactId(operand.id);
    }
  }
  before = now;
}

bool HostValues::AreSizes(absl::Span<const TapeHostOperand> operands) const {
  bool all = true, any = false;
  for (const TapeHostOperand& operand : operands) {
    if (operand.id < 0) continue;
    all &= nodes_[operand.id].is_size;
    any |= nodes_[operand.id].is_size;
  }
  return any && all;
}

bool HostValues::HasSizes(absl::Span<const TapeHostOperand> operands) const {
  return absl::c_any_of(operands, [this](const TapeHostOperand& operand) {
    return operand.id >= 0 &&
           (nodes_[operand.id].is_size || nodes_[operand.id].has_sizes);
  });
}

void HostValues::PinSizesOf(Id id) {
  std::vector<Id> pending = {id};
  while (!pending.empty()) {
    const Id one = pending.back();
    pending.pop_back();
    if (one < 0) continue;
    Node& node = nodes_[one];
    if (node.is_size) {
      PinSize(one);
    } else if (std::exchange(node.has_sizes, false)) {  // They will be pinned.
      for (const TapeHostOperand& operand : node.tape.operands) {
        pending.push_back(operand.id);
      }
    }
  }
}

std::vector<HostValues::Id> HostValues::SizesOf(Id id) const {
  std::vector<Id> sizes, pending = {id};
  absl::flat_hash_set<Id> seen;
  while (!pending.empty()) {
    const Id one = pending.back();
    pending.pop_back();
    if (one < 0 || !seen.insert(one).second) continue;
    const Node& node = nodes_[one];
    if (node.is_size) {
      sizes.push_back(one);
    } else if (node.has_sizes) {
      for (const TapeHostOperand& operand : node.tape.operands) {
        pending.push_back(operand.id);
      }
    }
  }
  return sizes;
}

void HostValues::AddCondition(const Comparison& comparison,
                              SizeFacts& facts) const {
  SizeFacts::Comparison condition{.op = comparison.op,
                                  .a = comparison.a,
                                  .b = comparison.b,
                                  .outcome = comparison.outcome};
  bool has_sizes = false;
  for (TapeHostOperand* operand : {&condition.a, &condition.b}) {
    if (operand->id < 0) continue;
    const Node& node = nodes_[operand->id];
    if (node.is_size) {
      has_sizes = true;
      operand->id = node.size_index;
      continue;
    }
    for (const Id size : SizesOf(operand->id)) {
      facts.exact.push_back(
          {.number = nodes_[size].size_index, .at = comparison.at.ToString()});
    }
    operand->id = -1;
  }
  if (has_sizes) facts.comparisons.push_back(std::move(condition));
}

std::vector<HostValues::Id> HostValues::TakeSizeUses() {
  notes_size_uses_ = false;
  return std::exchange(size_uses_, {});
}

void HostValues::AddSizeText(PyObject* text, absl::Span<const Id> sizes) {
  std::vector<Id>& of_text = size_texts_[text];
  if (of_text.empty()) pins_.push_back(PyRef::Share(text));
  of_text.insert(of_text.end(), sizes.begin(), sizes.end());
}

SizeFacts HostValues::FindSizeFacts() const {
  SizeFacts facts;
  const auto operand_of = [this](TapeHostOperand operand) {
    if (operand.id >= 0) operand.id = nodes_[operand.id].size_index;
    return operand;
  };
  for (const Id id : given_sizes_) {
    facts.given.push_back(nodes_[id].source.note.path);
  }
  for (const Node& node : nodes_) {
    if (!node.is_size) continue;
    SizeFacts::Number number{
        .tensor = node.tensor, .dim = node.dim, .given = node.given};
    if (node.loop >= 0) {
      number.loop = node.loop;
      number.round = node.round;
    }
    number.op = node.tape.op;
    for (const TapeHostOperand& operand : node.tape.operands) {
      number.operands.push_back(operand_of(operand));
    }
    if (node.is_exact) {
      facts.exact.push_back(
          {.number = node.size_index, .at = node.pinned_at.ToString()});
    }
    facts.numbers.push_back(std::move(number));
  }
  for (const Comparison& comparison : size_comparisons_) {
    facts.comparisons.push_back({.op = comparison.op,
                                 .a = operand_of(comparison.a),
                                 .b = operand_of(comparison.b),
                                 .outcome = comparison.outcome});
  }
  for (const Comparison& comparison : comparisons_) {
    if (!Varies(comparison)) AddCondition(comparison, facts);
  }
  return facts;
}

}  // namespace mica
