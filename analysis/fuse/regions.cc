#include "analysis/fuse/regions.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "analysis/fuse/region_groups.h"
#include "analysis/fuse/region_rules.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/op/region_code.h"

namespace mica {
namespace {

class Merger {
 public:
  Merger(const Program& program, const OpRegistry& ops,
         const KernelRegistry& kernels, const RegionLimits& limits)
      : program_(program),
        kernels_(kernels),
        most_(limits.most),
        groups_(program,
                limits.reduces && kernels.HasFast("mica.reduce", DType::kF32)),
        rewriter_(program, ops) {}

  // Nothing if no region is worth it.
  absl::StatusOr<std::optional<Program>> Run();

 private:
  using Made = absl::flat_hash_map<OpId, int>;

  bool IsWorthIt(const RegionGroup& group) const;
  absl::Status Emit(const RegionGroup& group);
  std::vector<ValueId> OperandsOf(const RegionGroup& group) const;
  bool IsOwn(const RegionGroup& group, ValueId value) const;
  RegionCode CodeOf(const RegionGroup& group,
                    absl::Span<const ValueId> operands, Made& made) const;
  bool IsReadElsewhere(const RegionGroup& group, ValueId value) const;
  // The type that a value has as the region's result.
  TensorType RegionType(const RegionGroup& group, ValueId value) const;
  absl::Status MapResult(const RegionGroup& group, ValueId value, ValueId made);

  const Op& op(OpId id) const { return program_.ops()[id]; }
  const TensorType& ResultType(OpId id) const {
    return program_.type(op(id).results[0]);
  }

  const Program& program_;
  const KernelRegistry& kernels_;
  const int64_t most_;  // Regions.
  const RegionGroups groups_;
  Rewriter rewriter_;
};

// One op alone keeps its own kernel, if there may be a good one.
bool Merger::IsWorthIt(const RegionGroup& group) const {
  const auto is_member = [this](OpId id) {
    return !groups_.member(id).steps.empty();
  };
  if (std::count_if(group.ops.begin(), group.ops.end(), is_member) != 1) {
    return true;
  }
  const Op& only = op(group.ops[0]);
  DType first = ResultType(group.ops[0]).dtype;
  bool is_first = true, has_number = false;
  ForEachValue(only.arguments, [&](ValueId value) {
    if (is_first) first = program_.type(value).dtype;
    has_number = has_number || program_.type(value).rank() == 0;
    is_first = false;
  });
  const std::vector<RegionStep>& steps = groups_.member(group.ops[0]).steps;
  // Sums and extremes ATen reads in place, in any dtype; the fast kernels of
  // softmax and the like want their axis to be the last one.
  if (!group.axes.empty()) {
    if (only.def->name() == "aten.nansum") return false;
    const auto last = static_cast<int64_t>(group.dims.size()) - 1;
    const bool is_last = group.axes == std::vector<int64_t>{last};
    if (steps.size() > 1) {
      return !kernels_.HasFast(only.def->name(), first) ||
             (!groups_.IsReduced(group.ops[0]) && !is_last);
    }
    return steps[0].op->id == RegionOpId::kMean &&
           !kernels_.HasFast(only.def->name(), first);
  }
  // What is no function runs as fast as memory by ATen's kernel, too, and from
  // the first call on, while code may come late.
  const bool has_function = std::any_of(
      steps.begin(), steps.end(),
      [](const RegionStep& step) { return step.op->is_function(); });
  if (has_function && !kernels_.HasFast(only.def->name(), first)) return true;
  const RegionStep& step = steps.front();
  return step.op->arity > 2 && step.op->id != RegionOpId::kWhere && has_number;
}

bool Merger::IsReadElsewhere(const RegionGroup& group, ValueId value) const {
  int own = 0;
  for (OpId id : group.ops) {
    ForEachValue(op(id).arguments,
                 [&](ValueId operand) { own += operand == value; });
  }
  return groups_.uses()[value] > own;
}

// What the group reads, in the order of its first reads: arrays before what
// has fewer dims.
std::vector<ValueId> Merger::OperandsOf(const RegionGroup& group) const {
  std::vector<ValueId> operands;
  for (bool wants_arrays : {true, false}) {
    for (OpId id : group.ops) {
      for (const RegionStep& step : groups_.member(id).steps) {
        for (const auto& operand : step.operands) {
          const auto* value = std::get_if<ValueId>(&operand);
          if (value == nullptr || IsOwn(group, *value)) continue;
          if ((program_.type(*value).dims == group.dims) != wants_arrays) {
            continue;
          }
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

bool Merger::IsOwn(const RegionGroup& group, ValueId value) const {
  const Value& v = program_.value(value);
  return v.kind == ValueKind::kResult &&
         std::binary_search(group.ops.begin(), group.ops.end(), v.index);
}

// The group's instructions, and by op the one that makes its result.
RegionCode Merger::CodeOf(const RegionGroup& group,
                          absl::Span<const ValueId> operands,
                          Made& made) const {
  using Ref = RegionCode::Ref;
  RegionCode code;
  for (OpId id : group.ops) {
    const int first = static_cast<int>(code.instructions.size());
    if (groups_.member(id).steps.empty()) {  // A view of an earlier one.
      const ValueId from = std::get<ValueRef>(op(id).arguments[0]).id;
      made[id] = made.at(program_.value(from).index);
      continue;
    }
    for (const RegionStep& step : groups_.member(id).steps) {
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

// As the program has it, but with ones for the reduced axes.
TensorType Merger::RegionType(const RegionGroup& group, ValueId value) const {
  TensorType type = program_.type(value);
  if (!groups_.IsReduced(program_.value(value).index)) return type;
  Dims kept = group.KeptDims();
  if (type.dims == kept) return type;
  if (!type.strides.empty()) {
    const bool is_expanded = type.dims == group.dims;
    for (int64_t axis : group.axes) {
      if (is_expanded) {
        type.strides[axis] = 1;
      } else {
        type.strides.insert(type.strides.begin() + axis, 1);
      }
    }
  }
  type.dims = std::move(kept);
  return InOneForm(std::move(type));
}

// A value that lacks the reduced axes, or is expanded along them, is a view of
// the region's result.
absl::Status Merger::MapResult(const RegionGroup& group, ValueId value,
                               ValueId made) {
  if (program_.type(value).dims == RegionType(group, value).dims) {
    rewriter_.Map(value, made);
    return absl::OkStatus();
  }
  ProgramBuilder::OpSpec spec;
  const TensorType& type = program_.type(value);
  const bool is_expanded = type.dims == group.dims;
  MICA_ASSIGN_OR_RETURN(
      spec.def,
      rewriter_.builder().FindOp(is_expanded ? "aten.expand" : "aten.view"));
  spec.arguments = {ValueRef{made},
                    std::vector<int64_t>(type.dims.begin(), type.dims.end())};
  spec.types.push_back(type);
  spec.names.push_back(program_.value(value).name);
  spec.source = op(group.ops.back()).source;
  MICA_ASSIGN_OR_RETURN(auto views, rewriter_.builder().AddOp(std::move(spec)));
  rewriter_.Map(value, views[0]);
  return absl::OkStatus();
}

absl::Status Merger::Emit(const RegionGroup& group) {
  const std::vector<ValueId> operands = OperandsOf(group);
  Made made;
  RegionCode code = CodeOf(group, operands, made);
  ProgramBuilder::OpSpec spec;
  std::vector<std::pair<ValueId, size_t>> results;  // And the region's result.
  for (OpId id : group.ops) {
    const ValueId result = op(id).results[0];
    if (!IsReadElsewhere(group, result)) continue;
    const auto at =
        std::find(code.results.begin(), code.results.end(), made[id]);
    results.emplace_back(result, at - code.results.begin());
    if (at != code.results.end()) continue;
    code.results.push_back(made[id]);
    spec.types.push_back(RegionType(group, result));
    const bool is_own = program_.type(result).dims == spec.types.back().dims;
    spec.names.push_back(is_own ? program_.value(result).name : std::string());
  }
  ValueRefs refs;
  for (ValueId operand : operands) {
    refs.push_back(ValueRef{rewriter_.NewId(operand)});
  }
  const bool reduces = !group.axes.empty();
  MICA_ASSIGN_OR_RETURN(
      spec.def,
      rewriter_.builder().FindOp(reduces ? "mica.reduce" : "mica.elementwise"));
  code.axes = group.axes;
  spec.arguments = {std::move(refs), code.ToText()};
  spec.source = op(group.ops.back()).source;
  MICA_ASSIGN_OR_RETURN(auto values,
                        rewriter_.builder().AddOp(std::move(spec)));
  for (const auto& [value, result] : results) {
    MICA_RETURN_IF_ERROR(MapResult(group, value, values[result]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Program>> Merger::Run() {
  const OpId num_ops = static_cast<OpId>(program_.ops().size());
  // In the order of their last ops.
  absl::flat_hash_set<const RegionGroup*> chosen;
  for (OpId id = 0; id < num_ops; ++id) {
    const RegionGroup* group = groups_.GroupOf(id);
    if (group == nullptr || group->at != id || !IsWorthIt(*group)) {
      continue;
    }
    if (static_cast<int64_t>(chosen.size()) == most_) break;
    chosen.insert(group);
  }
  if (chosen.empty()) return std::nullopt;
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  for (OpId id = 0; id < num_ops; ++id) {
    const RegionGroup* group = groups_.GroupOf(id);
    if (group == nullptr || !chosen.contains(group)) {
      MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op(id)));
    } else if (group->at == id) {
      MICA_RETURN_IF_ERROR(Emit(*group));
    }
  }
  return rewriter_.Finish();
}

}  // namespace

absl::StatusOr<Program> MergeElementwise(Program program, const OpRegistry& ops,
                                         const KernelRegistry& kernels,
                                         const RegionLimits& limits) {
  MICA_ASSIGN_OR_RETURN(auto merged,
                        Merger(program, ops, kernels, limits).Run());
  if (!merged.has_value()) return program;
  return *std::move(merged);
}

}  // namespace mica
