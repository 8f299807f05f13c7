#include "analysis/fuse/regions.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/fuse/region_rules.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/op/region_code.h"

namespace mica {
namespace {

constexpr int kNoGroup = -1;
// More values than this at once leave the registers.
constexpr size_t kMostMembers = 24;
constexpr size_t kMostSteps = 64;
constexpr size_t kMostOperands = 24;

using Member = std::vector<RegionStep>;

bool MakesRegions(const TensorType& type) {
  return !IsComplex(type.dtype) && !type.is_scalar && type.is_dense() &&
         type.num_elements() > 0;
}

class Merger {
 public:
  Merger(const Program& program, const OpRegistry& ops,
         const KernelRegistry& kernels)
      : program_(program),
        kernels_(kernels),
        uses_(CountUses(program)),
        group_of_(program.ops().size(), kNoGroup),
        members_(program.ops().size()),
        rewriter_(program, ops) {}

  // Nothing if no region is worth it.
  absl::StatusOr<std::optional<Program>> Run();

 private:
  struct Group {
    std::vector<OpId> ops;  // In order.
    size_t num_steps = 0;
    bool is_open = true;
    absl::flat_hash_map<ValueId, bool> operands;
  };

  // No steps if the op can't be a member.
  Member Translate(const Op& op) const;
  // True if the op has the dims of what group members read of it.
  bool Joins(ValueId value, OpId reader) const {
    return program_.type(value).dims == ResultType(reader).dims;
  }
  void Place(OpId id);
  // Closes the group that makes `value`, if it is open.
  void Close(ValueId value);
  // The group that makes `value`, kNoGroup if none or if it is closed.
  int OpenGroupOf(ValueId value) const;
  void Join(OpId id, std::vector<int> groups);
  bool IsWorthIt(const Group& group) const;
  absl::Status Emit(const Group& group);
  std::vector<ValueId> OperandsOf(const Group& group) const;
  bool IsOwn(const Group& group, ValueId value) const;
  RegionCode CodeOf(const Group& group, absl::Span<const ValueId> operands,
                    absl::flat_hash_map<OpId, int>& made) const;
  bool IsReadElsewhere(const Group& group, ValueId value) const;

  const Op& op(OpId id) const { return program_.ops()[id]; }
  const TensorType& ResultType(OpId id) const {
    return program_.type(op(id).results[0]);
  }

  const Program& program_;
  const KernelRegistry& kernels_;
  std::vector<int> uses_;
  std::vector<int> group_of_;    // By op.
  std::vector<Member> members_;  // By op.
  std::vector<Group> groups_;
  Rewriter rewriter_;
};

Member Merger::Translate(const Op& op) const {
  if (op.results.size() != 1 || !MakesRegions(program_.type(op.results[0]))) {
    return {};
  }
  return RegionStepsOf(program_, op);
}

int Merger::OpenGroupOf(ValueId value) const {
  const Value& v = program_.value(value);
  if (v.kind != ValueKind::kResult) return kNoGroup;
  const int group = group_of_[v.index];
  return group != kNoGroup && groups_[group].is_open ? group : kNoGroup;
}

void Merger::Close(ValueId value) {
  const int group = OpenGroupOf(value);
  if (group != kNoGroup) groups_[group].is_open = false;
}

void Merger::Place(OpId id) {
  members_[id] = Translate(op(id));
  std::vector<int> groups;
  ForEachValue(op(id).arguments, [&](ValueId value) {
    const int group = OpenGroupOf(value);
    if (group == kNoGroup) return;
    if (members_[id].empty() || !Joins(value, id)) {
      Close(value);
    } else if (std::find(groups.begin(), groups.end(), group) == groups.end()) {
      groups.push_back(group);
    }
  });
  if (!members_[id].empty()) Join(id, std::move(groups));
}

// Adds an op to the groups that it reads, which become one; to a new one if
// that would be too large.
void Merger::Join(OpId id, std::vector<int> groups) {
  Group joined;
  for (int group : groups) {
    if (!groups_[group].is_open) continue;  // Closed by another operand.
    const Group& from = groups_[group];
    joined.ops.insert(joined.ops.end(), from.ops.begin(), from.ops.end());
    joined.operands.insert(from.operands.begin(), from.operands.end());
    joined.num_steps += from.num_steps;
  }
  ForEachValue(op(id).arguments,
               [&](ValueId value) { joined.operands[value] = true; });
  if (joined.ops.size() >= kMostMembers ||
      joined.num_steps + members_[id].size() > kMostSteps ||
      joined.operands.size() > kMostOperands) {
    for (int group : groups) groups_[group].is_open = false;
    joined = {};
    ForEachValue(op(id).arguments,
                 [&](ValueId value) { joined.operands[value] = true; });
  } else {
    for (int group : groups) {
      if (groups_[group].is_open) groups_[group] = {.is_open = false};
    }
  }
  joined.ops.push_back(id);
  joined.num_steps += members_[id].size();
  std::sort(joined.ops.begin(), joined.ops.end());
  for (OpId member : joined.ops) {
    group_of_[member] = static_cast<int>(groups_.size());
  }
  groups_.push_back(std::move(joined));
}

// One op alone keeps its own kernel, if there may be a good one.
bool Merger::IsWorthIt(const Group& group) const {
  if (group.ops.size() != 1) return true;
  const Op& only = op(group.ops[0]);
  DType first = ResultType(group.ops[0]).dtype;
  bool is_first = true, has_number = false;
  ForEachValue(only.arguments, [&](ValueId value) {
    if (is_first) first = program_.type(value).dtype;
    has_number = has_number || program_.type(value).rank() == 0;
    is_first = false;
  });
  // What is no function runs as fast as memory by ATen's kernel, too.
  const bool has_function = std::any_of(
      members_[group.ops[0]].begin(), members_[group.ops[0]].end(),
      [](const RegionStep& step) { return step.op->is_function(); });
  if (has_function && !kernels_.HasFast(only.def->name(), first)) return true;
  const RegionStep& step = members_[group.ops[0]].front();
  return step.op->arity > 2 && step.op->id != RegionOpId::kWhere && has_number;
}

bool Merger::IsReadElsewhere(const Group& group, ValueId value) const {
  int own = 0;
  for (OpId id : group.ops) {
    ForEachValue(op(id).arguments,
                 [&](ValueId operand) { own += operand == value; });
  }
  return uses_[value] > own;
}

// What the group reads, in the order of its first reads: arrays before what
// has fewer dims.
std::vector<ValueId> Merger::OperandsOf(const Group& group) const {
  const Dims& dims = ResultType(group.ops.back()).dims;
  std::vector<ValueId> operands;
  for (bool wants_arrays : {true, false}) {
    for (OpId id : group.ops) {
      for (const RegionStep& step : members_[id]) {
        for (const auto& operand : step.operands) {
          const auto* value = std::get_if<ValueId>(&operand);
          if (value == nullptr || IsOwn(group, *value)) continue;
          if ((program_.type(*value).dims == dims) != wants_arrays) continue;
          if (std::find(operands.begin(), operands.end(), *value) ==
              operands.end()) {
            operands.push_back(*value);
          }
        }
      }
    }
  }
  return operands;
}

bool Merger::IsOwn(const Group& group, ValueId value) const {
  const Value& v = program_.value(value);
  return v.kind == ValueKind::kResult &&
         std::binary_search(group.ops.begin(), group.ops.end(), v.index);
}

// The group's instructions, and by op the one that makes its result.
RegionCode Merger::CodeOf(const Group& group,
                          absl::Span<const ValueId> operands,
                          absl::flat_hash_map<OpId, int>& made) const {
  using Ref = RegionCode::Ref;
  RegionCode code;
  for (OpId id : group.ops) {
    const int first = static_cast<int>(code.instructions.size());
    for (const RegionStep& step : members_[id]) {
      RegionCode::Instruction instruction{
          .op = step.op, .dtype = step.dtype, .operands = {}};
      for (const auto& operand : step.operands) {
        Ref ref;
        if (const auto* number = std::get_if<double>(&operand)) {
          ref.number = *number;
        } else if (const auto* own = std::get_if<RegionStep::Made>(&operand)) {
          ref = {.kind = Ref::Kind::kInstruction, .index = first + own->index};
        } else if (const ValueId value = std::get<ValueId>(operand);
                   IsOwn(group, value)) {
          ref = {.kind = Ref::Kind::kInstruction,
                 .index = made.at(program_.value(value).index)};
        } else {
          const auto at = std::find(operands.begin(), operands.end(), value);
          ref = {.kind = Ref::Kind::kOperand,
                 .index = static_cast<int>(at - operands.begin())};
        }
        instruction.operands.push_back(ref);
      }
      code.instructions.push_back(std::move(instruction));
    }
    made[id] = static_cast<int>(code.instructions.size()) - 1;
  }
  return code;
}

absl::Status Merger::Emit(const Group& group) {
  const std::vector<ValueId> operands = OperandsOf(group);
  absl::flat_hash_map<OpId, int> made;
  RegionCode code = CodeOf(group, operands, made);
  ProgramBuilder::OpSpec spec;
  std::vector<ValueId> results;
  for (OpId id : group.ops) {
    const ValueId result = op(id).results[0];
    if (!IsReadElsewhere(group, result)) continue;
    code.results.push_back(made[id]);
    results.push_back(result);
    spec.types.push_back(program_.type(result));
    spec.names.push_back(program_.value(result).name);
  }
  ValueRefs refs;
  for (ValueId operand : operands) {
    refs.push_back(ValueRef{rewriter_.NewId(operand)});
  }
  MICA_ASSIGN_OR_RETURN(spec.def,
                        rewriter_.builder().FindOp("mica.elementwise"));
  spec.arguments = {std::move(refs), code.ToText()};
  spec.source = op(group.ops.back()).source;
  MICA_ASSIGN_OR_RETURN(auto values,
                        rewriter_.builder().AddOp(std::move(spec)));
  for (size_t i = 0; i < results.size(); ++i) {
    rewriter_.Map(results[i], values[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Program>> Merger::Run() {
  const OpId num_ops = static_cast<OpId>(program_.ops().size());
  for (OpId id = 0; id < num_ops; ++id) Place(id);
  const bool is_any_worth_it =
      std::any_of(groups_.begin(), groups_.end(), [this](const Group& group) {
        return !group.ops.empty() && IsWorthIt(group);
      });
  if (!is_any_worth_it) return std::nullopt;
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  for (OpId id = 0; id < num_ops; ++id) {
    const Group* group =
        group_of_[id] == kNoGroup ? nullptr : &groups_[group_of_[id]];
    if (group == nullptr || !IsWorthIt(*group)) {
      MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op(id)));
    } else if (group->ops.back() == id) {
      MICA_RETURN_IF_ERROR(Emit(*group));
    }
  }
  return rewriter_.Finish();
}

}  // namespace

absl::StatusOr<Program> MergeElementwise(Program program, const OpRegistry& ops,
                                         const KernelRegistry& kernels) {
  MICA_ASSIGN_OR_RETURN(auto merged, Merger(program, ops, kernels).Run());
  if (!merged.has_value()) return program;
  return *std::move(merged);
}

}  // namespace mica
