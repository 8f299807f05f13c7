#include "analysis/passes/program_facts.h"

#include <algorithm>

#include "framework/ir/control_flow.h"
#include "framework/ir/fetch_ahead.h"

namespace mica {

ProgramFacts::ProgramFacts(const Program& program)
    : program_(program),
      uses_(program.num_values(), 0),
      first_reader_(program.num_values() + 1, 0) {
  for (size_t i = 0; i < program.ops().size(); ++i) {
    FetchAhead(program.ops(), i);
    ForEachValue(program.ops()[i].arguments, [&](ValueId id) { ++uses_[id]; });
  }
  int num_reads = 0;
  for (ValueId id = 0; id < program.num_values(); ++id) {
    num_reads += uses_[id];
    first_reader_[id + 1] = num_reads;
  }
  readers_.resize(num_reads);
  LargeVector<int> next(first_reader_.begin(), first_reader_.end());
  for (size_t i = 0; i < program.ops().size(); ++i) {
    FetchAhead(program.ops(), i);
    ForEachValue(program.ops()[i].arguments, [&](ValueId id) {
      readers_[next[id]++] = static_cast<OpId>(i);
    });
  }
  for (const Update& update : program.updates()) ++uses_[update.value];
  for (ValueId id : program.outputs()) {
    if (id != kNoValue) ++uses_[id];
  }
}

ValueId ProgramFacts::ValueOf(const Op& op, int param) {
  const auto* ref = std::get_if<ValueRef>(&op.arguments[param]);
  return ref == nullptr ? kNoValue : ref->id;
}

OpId ProgramFacts::ProducerOf(ValueId value) const {
  if (value == kNoValue) return kNoOp;
  const Value& v = program_.value(value);
  return v.kind == ValueKind::kResult ? v.index : kNoOp;
}

bool ProgramFacts::MayChangeStrides(ValueId value) const {
  const absl::Span<const OpId> readers = ReadersOf(value);
  return uses_[value] == static_cast<int>(readers.size()) &&
         std::all_of(readers.begin(), readers.end(), [&](OpId id) {
           return !op(id).def->is_view() && !op(id).def->is_opaque() &&
                  op(id).bodies.empty();
         });
}

bool Effects::Has(const Op& op) {
  if (op.bodies.empty()) return op.def->has_effect();
  if (ControlKindOf(*op.def) != ControlKind::kCall) return HasEffect(op);
  const auto [it, is_new] = functions_.try_emplace(op.bodies[0].get(), false);
  if (is_new) it->second = HasEffect(op);
  return it->second;
}

Live FindLive(const Program& program, absl::Span<const ValueId> outputs) {
  Live live = {.values = std::vector<bool>(program.num_values(), false),
               .ops = std::vector<bool>(program.ops().size(), false)};
  for (ValueId id : outputs) {
    if (id != kNoValue) live.values[id] = true;
  }
  for (const Update& update : program.updates()) {
    live.values[update.value] = true;
  }
  Effects effects;
  for (size_t i = program.ops().size(); i-- > 0;) {
    const Op& op = program.ops()[i];
    live.ops[i] = effects.Has(op) ||
                  std::any_of(op.results.begin(), op.results.end(),
                              [&](ValueId id) { return live.values[id]; });
    if (!live.ops[i]) continue;
    ForEachValue(op.arguments, [&](ValueId id) { live.values[id] = true; });
  }
  return live;
}

bool IsNumber(const Argument& argument, double wanted) {
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    return static_cast<double>(*integer) == wanted;
  }
  const auto* real = std::get_if<double>(&argument);
  return real != nullptr && *real == wanted;
}

std::optional<std::string> ActivationName(const Op& op) {
  const std::string& name = op.def->name();
  if (name == "aten.relu") return "relu";
  if (name == "aten.silu") return "silu";
  if (name == "aten.tanh") return "tanh";
  if (name == "aten.sigmoid") return "sigmoid";
  if (name == "aten.hardswish") return "hardswish";
  if (name == "aten.gelu") {
    return std::get<std::string>(op.arguments[1]) == "tanh" ? "gelu_tanh"
                                                            : "gelu";
  }
  const bool is_relu6 = name == "aten.hardtanh" &&
                        IsNumber(op.arguments[1], 0) &&
                        IsNumber(op.arguments[2], 6);
  if (is_relu6) return "relu6";
  return std::nullopt;
}

}  // namespace mica
