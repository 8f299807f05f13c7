#include "analysis/fuse/regions.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/op/region_code.h"

namespace mica {
namespace {

constexpr int kNoGroup = -1;
// A region's tiles and numbers have to fit the first-level cache.
constexpr size_t kMostMembers = 16;
constexpr size_t kMostOperands = 24;

// An op as an instruction: its operands are values and constants.
struct Member {
  const RegionOp* op = nullptr;
  std::vector<std::variant<ValueId, double>> operands;
};

// What an op is in a region, by its parameters in the instruction's order.
struct Rule {
  absl::string_view op;
  absl::string_view instruction;
  std::vector<int> params;
  // Where the factor is 1: another instruction, without the factor.
  absl::string_view plain = "";
};

const std::vector<Rule>& Rules() {
  static const auto& rules = *new std::vector<Rule>{
      {"aten.neg", "neg", {0}},
      {"aten.abs", "abs", {0}},
      {"aten.relu", "relu", {0}},
      {"aten.reciprocal", "reciprocal", {0}},
      {"aten.sqrt", "sqrt", {0}},
      {"aten.rsqrt", "rsqrt", {0}},
      {"aten.exp", "exp", {0}},
      {"aten.tanh", "tanh", {0}},
      {"aten.sigmoid", "sigmoid", {0}},
      {"aten.silu", "silu", {0}},
      {"aten.mul.Tensor", "mul", {0, 1}},
      {"aten.mul.Scalar", "mul", {0, 1}},
      {"aten.div.Tensor", "div", {0, 1}},
      {"aten.div.Scalar", "div", {0, 1}},
      {"aten.maximum", "maximum", {0, 1}},
      {"aten.minimum", "minimum", {0, 1}},
      {"aten.tanh_backward", "tanh_backward", {0, 1}},
      {"aten.add.Tensor", "add_scaled", {0, 1, 2}, "add"},
      {"aten.add.Scalar", "add_scaled", {0, 1, 2}, "add"},
      {"aten.sub.Tensor", "sub_scaled", {0, 1, 2}, "sub"},
      {"aten.sub.Scalar", "sub_scaled", {0, 1, 2}, "sub"},
      {"aten.rsub.Tensor", "sub_scaled", {1, 0, 2}, "sub"},
      {"aten.rsub.Scalar", "sub_scaled", {1, 0, 2}, "sub"},
      {"aten.lerp.Scalar", "lerp", {0, 1, 2}},
      {"aten.lerp.Tensor", "lerp", {0, 1, 2}},
      {"aten.addcmul", "addcmul", {0, 1, 2, 3}},
      {"aten.addcdiv", "addcdiv", {0, 1, 2, 3}},
  };
  return rules;
}

// Functions that have vector loops in float32 alone.
bool IsFunction(absl::string_view instruction) {
  return instruction == "exp" || instruction == "tanh" ||
         instruction == "sigmoid" || instruction == "silu";
}

const Rule* FindRule(absl::string_view op) {
  static const auto& by_name = [] {
    auto* map = new absl::flat_hash_map<absl::string_view, const Rule*>;
    for (const Rule& rule : Rules()) map->emplace(rule.op, &rule);
    return std::cref(*map);
  }();
  const auto it = by_name.get().find(op);
  return it == by_name.get().end() ? nullptr : it->second;
}

std::optional<double> ConstantOf(const Argument& argument) {
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    return static_cast<double>(*integer);
  }
  if (const auto* real = std::get_if<double>(&argument)) return *real;
  return std::nullopt;
}

// The instruction of a power that is a product or a root.
absl::string_view PowerName(const Argument& exponent) {
  const std::optional<double> number = ConstantOf(exponent);
  if (number == 2) return "square";
  if (number == 3) return "cube";
  if (number == -1) return "reciprocal";
  return "";
}

bool HasLoops(const TensorType& type) {
  return (type.dtype == DType::kF32 || type.dtype == DType::kF64) &&
         !type.is_scalar && type.is_dense() && type.num_elements() > 0;
}

// A tensor of no dims or a host scalar that the loops convert.
bool IsNumber(const TensorType& type) {
  return type.rank() == 0 && type.dtype != DType::kF16 &&
         type.dtype != DType::kBF16 &&
         (IsFloating(type.dtype) || type.dtype == DType::kI64 ||
          type.dtype == DType::kI32);
}

// Instructions whose loops take arrays alone.
bool TakesArraysOnly(const RegionOp& op) {
  return op.num_elements != 2 || op.name == "lerp" ||
         op.name == "tanh_backward";
}

class Merger {
 public:
  Merger(const Program& program, const OpRegistry& ops)
      : program_(program),
        uses_(CountUses(program)),
        group_of_(program.ops().size(), kNoGroup),
        members_(program.ops().size()),
        rewriter_(program, ops) {}

  // Nothing if no region is worth it.
  absl::StatusOr<std::optional<Program>> Run();

 private:
  struct Group {
    std::vector<OpId> ops;  // In order.
    bool is_open = true;
    absl::flat_hash_map<ValueId, bool> operands;
  };

  std::optional<Member> Translate(const Op& op) const;
  std::optional<Member> Fill(const Op& op, absl::string_view instruction,
                             const std::vector<int>& params) const;
  bool Fits(const Op& op, const Member& member) const;
  void Place(OpId id);
  // Closes the group that makes `value`, if it is open.
  void Close(ValueId value);
  // The group that makes `value`, kNoGroup if none or if it is closed.
  int OpenGroupOf(ValueId value) const;
  void Join(OpId id, std::vector<int> groups);
  bool IsWorthIt(const Group& group) const;
  absl::Status Emit(const Group& group);
  bool IsReadElsewhere(const Group& group, ValueId value) const;

  const Op& op(OpId id) const { return program_.ops()[id]; }
  const TensorType& ResultType(OpId id) const {
    return program_.type(op(id).results[0]);
  }

  const Program& program_;
  std::vector<int> uses_;
  std::vector<int> group_of_;  // By op.
  std::vector<std::optional<Member>> members_;
  std::vector<Group> groups_;
  Rewriter rewriter_;
};

std::optional<Member> Merger::Fill(const Op& op, absl::string_view instruction,
                                   const std::vector<int>& params) const {
  Member member{.op = FindRegionOp(instruction)};
  if (member.op == nullptr) return std::nullopt;
  for (int i = 0; i < member.op->arity(); ++i) {
    const Argument& argument = op.arguments[params[i]];
    if (const auto* ref = std::get_if<ValueRef>(&argument)) {
      member.operands.emplace_back(ref->id);
      continue;
    }
    const std::optional<double> number = ConstantOf(argument);
    if (!number.has_value()) return std::nullopt;
    member.operands.emplace_back(*number);
  }
  if (!Fits(op, member)) return std::nullopt;
  return member;
}

bool Merger::Fits(const Op& op, const Member& member) const {
  const TensorType& region = program_.type(op.results[0]);
  bool has_array = false;
  for (size_t i = 0; i < member.operands.size(); ++i) {
    const bool may_be_array = static_cast<int>(i) < member.op->num_elements;
    const auto* value = std::get_if<ValueId>(&member.operands[i]);
    const bool is_array = value != nullptr && program_.type(*value) == region;
    if (value != nullptr && !is_array && !IsNumber(program_.type(*value))) {
      return false;
    }
    if (may_be_array && !is_array && TakesArraysOnly(*member.op)) return false;
    // A factor has no dims; then it is an array where the region has none.
    if (!may_be_array && is_array) return false;
    has_array = has_array || (may_be_array && is_array);
  }
  return has_array;
}

std::optional<Member> Merger::Translate(const Op& op) const {
  if (op.results.size() != 1 || !HasLoops(program_.type(op.results[0]))) {
    return std::nullopt;
  }
  if (op.def->name() == "aten.pow.Tensor_Scalar") {
    return Fill(op, PowerName(op.arguments[1]), {0});
  }
  const Rule* rule = FindRule(op.def->name());
  if (rule == nullptr) return std::nullopt;
  if (program_.type(op.results[0]).dtype != DType::kF32 &&
      IsFunction(rule->instruction)) {
    return std::nullopt;
  }
  const bool is_plain = !rule->plain.empty() &&
                        ConstantOf(op.arguments[rule->params.back()]) == 1.0;
  return Fill(op, is_plain ? rule->plain : rule->instruction, rule->params);
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
    const bool joins =
        members_[id].has_value() && program_.type(value) == ResultType(id);
    if (!joins) {
      Close(value);
    } else if (std::find(groups.begin(), groups.end(), group) == groups.end()) {
      groups.push_back(group);
    }
  });
  if (members_[id].has_value()) Join(id, std::move(groups));
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
  }
  ForEachValue(op(id).arguments,
               [&](ValueId value) { joined.operands[value] = true; });
  if (joined.ops.size() >= kMostMembers ||
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
  std::sort(joined.ops.begin(), joined.ops.end());
  for (OpId member : joined.ops) {
    group_of_[member] = static_cast<int>(groups_.size());
  }
  groups_.push_back(std::move(joined));
}

// One op alone keeps its own kernel, if that is a good one.
bool Merger::IsWorthIt(const Group& group) const {
  if (group.ops.size() != 1) return true;
  const Member& member = *members_[group.ops[0]];
  if (member.op->num_numbers == 0) return false;
  return member.op->name == "lerp" || member.op->num_elements == 3 ||
         std::holds_alternative<ValueId>(member.operands.back());
}

bool Merger::IsReadElsewhere(const Group& group, ValueId value) const {
  int own = 0;
  for (OpId id : group.ops) {
    ForEachValue(op(id).arguments,
                 [&](ValueId operand) { own += operand == value; });
  }
  return uses_[value] > own;
}

absl::Status Merger::Emit(const Group& group) {
  using Kind = RegionCode::Ref::Kind;
  const TensorType& region = ResultType(group.ops.back());
  // Arrays first: the region is of the first operand's type.
  std::vector<ValueId> operands;
  for (bool wants_arrays : {true, false}) {
    for (OpId id : group.ops) {
      for (const auto& operand : members_[id]->operands) {
        const auto* value = std::get_if<ValueId>(&operand);
        if (value == nullptr) continue;
        const Value& v = program_.value(*value);
        const bool is_own =
            v.kind == ValueKind::kResult &&
            std::binary_search(group.ops.begin(), group.ops.end(), v.index);
        if (is_own || (*v.type == region) != wants_arrays) continue;
        if (std::find(operands.begin(), operands.end(), *value) ==
            operands.end()) {
          operands.push_back(*value);
        }
      }
    }
  }
  RegionCode code;
  ProgramBuilder::OpSpec spec;
  std::vector<ValueId> results;
  for (OpId id : group.ops) {
    RegionCode::Instruction instruction{.op = members_[id]->op, .operands = {}};
    for (const auto& operand : members_[id]->operands) {
      if (const auto* number = std::get_if<double>(&operand)) {
        instruction.operands.push_back({.number = *number});
        continue;
      }
      const ValueId value = std::get<ValueId>(operand);
      const auto at = std::find(operands.begin(), operands.end(), value);
      if (at != operands.end()) {
        instruction.operands.push_back(
            {.kind = Kind::kOperand,
             .index = static_cast<int>(at - operands.begin())});
        continue;
      }
      const auto own = std::lower_bound(group.ops.begin(), group.ops.end(),
                                        program_.value(value).index);
      instruction.operands.push_back(
          {.kind = Kind::kInstruction,
           .index = static_cast<int>(own - group.ops.begin())});
    }
    const ValueId result = op(id).results[0];
    if (IsReadElsewhere(group, result)) {
      code.results.push_back(static_cast<int>(code.instructions.size()));
      results.push_back(result);
      spec.types.push_back(program_.type(result));
      spec.names.push_back(program_.value(result).name);
    }
    code.instructions.push_back(std::move(instruction));
  }
  ValueRefs refs;
  for (ValueId operand : operands) {
    refs.push_back(ValueRef{rewriter_.NewId(operand)});
  }
  MICA_ASSIGN_OR_RETURN(spec.def,
                        rewriter_.builder().FindOp("mica.elementwise"));
  spec.arguments = {std::move(refs), code.ToText()};
  spec.source = op(group.ops.back()).source;
  MICA_ASSIGN_OR_RETURN(auto made, rewriter_.builder().AddOp(std::move(spec)));
  for (size_t i = 0; i < results.size(); ++i) {
    rewriter_.Map(results[i], made[i]);
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

absl::StatusOr<Program> MergeElementwise(Program program,
                                         const OpRegistry& ops) {
  MICA_ASSIGN_OR_RETURN(auto merged, Merger(program, ops).Run());
  if (!merged.has_value()) return program;
  return *std::move(merged);
}

}  // namespace mica
