// What depends on frozen variables alone: a Binding computes it once.

#include <utility>
#include <vector>

#include "analysis/plan/planner.h"
#include "framework/base/status.h"

namespace mica {

bool Planner::IsFrozen(ValueId value) const {
  if (!options_.frozen) return false;
  const ValueId base = resolved_[value].base;
  const Value& v = program().value(base);
  if (v.kind == ValueKind::kInput) {
    return !inputs_.empty() && inputs_[v.index] == Change::kFrozen;
  }
  return v.kind == ValueKind::kVariable
             ? !is_updated_[base]
             : v.kind == ValueKind::kResult && is_folded_[v.index];
}

bool Planner::IsConstant(ValueId value) const {
  const Value& v = program().value(resolved_[value].base);
  return v.kind == ValueKind::kConstant ||
         (v.kind == ValueKind::kInput && !inputs_.empty() &&
          inputs_[v.index] == Change::kConstant);
}

void Planner::MarkFolded() {
  is_folded_.assign(program().ops().size(), false);
  if (!options_.frozen || role_ == Role::kBody) return;
  for (size_t i = 0; i < program().ops().size(); ++i) {
    const Op& op = program().ops()[i];
    if (op.def->is_view() || op.def->has_effect() || op.def->is_opaque() ||
        !op.bodies.empty()) {
      continue;
    }
    bool reads_frozen = false, reads_other = false;
    ForEachValue(op.arguments, [&](ValueId id) {
      reads_frozen = reads_frozen || IsFrozen(id);
      reads_other = reads_other || (!IsConstant(id) && !IsFrozen(id));
    });
    for (ValueId id : op.results) {
      reads_other = reads_other || is_escaping_[id];
    }
    is_folded_[i] = reads_frozen && !reads_other;
  }
}

// A step of the Binding: its results and scratch are folded values.
absl::Status Planner::AddFold(OpId id) {
  const Op& op = program().ops()[id];
  KernelRequest request = MakeRequest(op);
  for (Operand& operand : request.operands) operand.is_frozen = false;
  MICA_ASSIGN_OR_RETURN(const Selected selected, selector_.Select(request));
  Step step{.name = op.def->name(),
            .kernel = NameOf(selected),
            .prepared = selected.prepared,
            .op = id,
            .first_arg = static_cast<int32_t>(plan_->fold_args_.size())};
  auto new_value = [this](int64_t bytes) {
    plan_->folded_.push_back({.bytes = bytes});
    return Location{.home = Home::kFolded,
                    .index = static_cast<int>(plan_->folded_.size()) - 1};
  };
  for (ValueId operand : OperandsOf(op)) {
    plan_->fold_args_.push_back(PlaceOf(operand).location);
  }
  for (ValueId result : op.results) {
    if (reads_.uses[result] > 0) {
      places_[result].location =
          new_value(program().type(result).extent_bytes());
    }
    plan_->fold_args_.push_back(places_[result].location);
  }
  if (selected.prepared->scratch_bytes > 0) {
    plan_->fold_args_.push_back(new_value(selected.prepared->scratch_bytes));
  }
  step.num_args =
      static_cast<int32_t>(plan_->fold_args_.size()) - step.first_arg;
  plan_->folds_.push_back(std::move(step));
  return absl::OkStatus();
}

}  // namespace mica
