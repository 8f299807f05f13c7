#include "analysis/schedule/stage_map.h"

#include <algorithm>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analysis/schedule/gradients.h"
#include "analysis/schedule/scopes.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// By value: computed from a gradient, or one itself.
std::vector<bool> Descendants(
    const Program& program,
    const absl::flat_hash_map<ValueId, ValueId>& gradients) {
  std::vector<bool> is_behind(program.num_values(), false);
  for (const auto& [gradient, variable] : gradients) is_behind[gradient] = true;
  for (const Op& op : program.ops()) {
    bool any = false;
    ForEachValue(op.arguments, [&](ValueId id) { any = any || is_behind[id]; });
    if (!any) continue;
    for (ValueId id : op.results) is_behind[id] = true;
  }
  return is_behind;
}

// The variables that an update's value is computed from, up to gradients.
std::vector<ValueId> VariablesOf(
    const Program& program, ValueId update,
    const absl::flat_hash_map<ValueId, ValueId>& gradients) {
  std::vector<ValueId> variables;
  absl::flat_hash_set<ValueId> found = {update};
  std::vector<ValueId> todo = {update};
  while (!todo.empty()) {
    const ValueId id = todo.back();
    todo.pop_back();
    const Value& value = program.value(id);
    if (value.kind == ValueKind::kVariable) variables.push_back(id);
    if (value.kind != ValueKind::kResult || gradients.contains(id)) continue;
    ForEachValue(program.ops()[value.index].arguments, [&](ValueId operand) {
      if (found.insert(operand).second) todo.push_back(operand);
    });
  }
  return variables;
}

}  // namespace

absl::StatusOr<StageMap> StageMap::Build(const Program& program,
                                         const CutOptions& options) {
  if (options.num_stages < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("wants stages, got ", options.num_stages));
  }
  StageMap map(program, options);
  if (options.gradients.empty()) {
    MICA_ASSIGN_OR_RETURN(map.variable_of_gradient_, FindGradients(program));
  } else {
    MICA_RETURN_IF_ERROR(map.NameGradients(options));
  }
  map.FindUpdates();

  // All that a micro-batch is computed for.
  std::vector<ValueId> roots;
  for (ValueId id : program.outputs()) {
    if (!map.is_of_all_batches_[id]) roots.push_back(id);
  }
  for (size_t i = 0; i < program.updates().size(); ++i) {
    if (!map.is_late_[i]) roots.push_back(program.updates()[i].value);
  }
  std::vector<ValueId> gradients;
  for (const auto& [gradient, variable] : map.variable_of_gradient_) {
    gradients.push_back(gradient);
  }
  roots.insert(roots.end(), gradients.begin(), gradients.end());
  if (map.loss_ != kNoValue) roots.push_back(map.loss_);
  const std::vector<bool> needed = map.Ancestors(roots, false);
  const std::vector<bool> for_loss =
      map.loss_ == kNoValue ? needed : map.Ancestors({map.loss_}, false);
  const std::vector<bool> for_gradients = map.Ancestors(gradients, false);

  const size_t num_ops = program.ops().size();
  std::vector<bool> is_forward(num_ops, false);
  std::vector<bool> is_backward(num_ops, false);
  for (size_t i = 0; i < num_ops; ++i) {
    const Op& op = program.ops()[i];
    bool is_needed = op.def->has_effect();
    bool is_for_loss = false;
    bool is_behind = false;  // Of a backward op.
    bool is_for_gradients = false;
    for (ValueId id : op.results) {
      is_needed = is_needed || needed[id];
      is_for_loss = is_for_loss || for_loss[id];
      is_for_gradients = is_for_gradients || for_gradients[id];
    }
    ForEachValue(op.arguments, [&](ValueId id) {
      const std::optional<OpId> producer = map.ProducerOf(id);
      if (producer.has_value() && is_backward[*producer]) is_behind = true;
    });
    if (!is_needed) continue;
    is_backward[i] = is_behind || op.source.is_backward ||
                     (is_for_gradients && !is_for_loss);
    // Without gradients all is forward.
    if (gradients.empty()) is_backward[i] = false;
    is_forward[i] = !is_backward[i];
  }
  map.stage_.assign(num_ops, 0);
  map.op_class_.assign(num_ops, std::nullopt);
  if (!options.scopes.empty()) {
    if (static_cast<int>(options.scopes.size()) + 1 != options.num_stages) {
      return absl::InvalidArgumentError(
          absl::StrCat("wants a module for each of ", options.num_stages,
                       " stages but the first, got ", options.scopes.size()));
    }
    MICA_ASSIGN_OR_RETURN(map.starts_,
                          FindStarts(program, is_forward, options.scopes));
  }
  map.CutForward(is_forward);
  map.PlaceForward(is_forward);
  map.PlaceBackward(is_backward);
  map.SplitBackward(is_backward);
  map.FindGradientStages();
  map.PlaceUpdates();
  for (ValueId id : program.outputs()) {
    if (!map.is_of_all_batches_[id]) continue;
    map.needs_reduce_ |= map.gradient_stage_[id] == kSeveral;
  }
  MICA_RETURN_IF_ERROR(map.CheckUpdates());
  return map;
}

absl::Status StageMap::NameGradients(const CutOptions& options) {
  loss_ = program_.FindValue(options.loss);
  if (loss_ == kNoValue) {
    return absl::NotFoundError(absl::StrCat(
        "loss %", options.loss, " is no value of program @", program_.name()));
  }
  absl::flat_hash_map<absl::string_view, ValueId> variables;
  for (const Variable& variable : program_.variables()) {
    variables.emplace(variable.name, variable.value);
  }
  for (const auto& [variable, value] : options.gradients) {
    const ValueId id = program_.FindValue(value);
    const auto it = variables.find(variable);
    if (id == kNoValue || !ProducerOf(id).has_value() ||
        it == variables.end()) {
      return absl::NotFoundError(
          absl::StrCat("gradient %", value, " of variable \"", variable,
                       "\": program @", program_.name(), " computes no such"));
    }
    if (!variable_of_gradient_.try_emplace(id, it->second).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("gradient %", value, " is of two variables"));
    }
  }
  return absl::OkStatus();
}

std::optional<OpId> StageMap::ProducerOf(ValueId value) const {
  const Value& v = program_.value(value);
  if (v.kind != ValueKind::kResult) return std::nullopt;
  return v.index;
}

std::vector<bool> StageMap::Ancestors(const std::vector<ValueId>& roots,
                                      bool stop_at_gradients) const {
  std::vector<bool> found(program_.num_values(), false);
  for (ValueId id : roots) found[id] = true;
  for (size_t i = program_.ops().size(); i-- > 0;) {
    const Op& op = program_.ops()[i];
    bool is_needed = false;
    for (ValueId id : op.results) {
      const bool is_stop =
          stop_at_gradients && variable_of_gradient_.contains(id);
      is_needed = is_needed || (found[id] && !is_stop);
    }
    if (!is_needed) continue;
    ForEachValue(op.arguments, [&](ValueId id) { found[id] = true; });
  }
  return found;
}

// Updates behind a gradient are made once a run, and so are those of variables
// that these read: counters of steps.
void StageMap::FindUpdates() {
  const std::vector<bool> is_behind =
      Descendants(program_, variable_of_gradient_);
  is_of_all_batches_.assign(program_.num_values(), false);
  for (ValueId id : program_.outputs()) {
    const std::optional<OpId> producer = ProducerOf(id);
    is_of_all_batches_[id] = is_behind[id] && producer.has_value() &&
                             !program_.ops()[*producer].source.is_backward &&
                             !variable_of_gradient_.contains(id);
  }
  std::vector<ValueId> late;
  for (const Update& update : program_.updates()) {
    is_late_.push_back(is_behind[update.value]);
    if (is_late_.back()) late.push_back(update.value);
  }
  const std::vector<bool> for_late = Ancestors(late, true);
  for (size_t i = 0; i < is_late_.size(); ++i) {
    if (is_late_[i]) continue;
    const Update& update = program_.updates()[i];
    is_late_[i] = for_late[update.target] || for_late[update.value];
  }
}

void StageMap::CutForward(const std::vector<bool>& is_forward) {
  double total = 0;
  for (size_t i = 0; i < is_forward.size(); ++i) {
    if (is_forward[i]) total += StageCostOf(program_, program_.ops()[i]);
  }
  double before = 0;
  for (size_t i = 0; i < is_forward.size(); ++i) {
    if (!is_forward[i]) continue;
    if (!starts_.empty()) {
      stage_[i] = static_cast<int>(
          absl::c_upper_bound(starts_, static_cast<OpId>(i)) - starts_.begin());
      continue;
    }
    const double cost = StageCostOf(program_, program_.ops()[i]);
    const double middle = before + cost / 2;
    before += cost;
    if (total > 0) {
      stage_[i] = std::min(static_cast<int>(middle / total * num_stages_),
                           num_stages_ - 1);
    }
  }
}

void StageMap::PlaceForward(const std::vector<bool>& is_forward) {
  std::vector<bool> is_fed(program_.num_values(), false);
  for (ValueId id : program_.inputs()) is_fed[id] = true;
  std::vector<bool> is_of_batch(is_forward.size(), false);
  for (size_t i = 0; i < is_forward.size(); ++i) {
    if (!is_forward[i]) continue;
    const Op& op = program_.ops()[i];
    ForEachValue(op.arguments, [&](ValueId id) {
      if (is_fed[id]) is_of_batch[i] = true;
    });
    if (!is_of_batch[i]) continue;
    for (ValueId id : op.results) is_fed[id] = true;
    // A fused op may round otherwise than its parts: an activation or a sum
    // stays with what it is applied to, wherever the cut would fall.
    if (!op.def->is_elementwise() && !op.def->is_view()) continue;
    int last = -1;
    ForEachValue(op.arguments, [&](ValueId id) {
      const std::optional<OpId> producer = ProducerOf(id);
      if (producer.has_value() && is_of_batch[*producer]) {
        last = std::max(last, stage_[*producer]);
      }
    });
    if (last >= 0) stage_[i] = last;
  }
  // What is computed from variables alone goes where it is read first.
  std::vector<int> first_reader(program_.num_values(), num_stages_);
  for (size_t i = is_forward.size(); i-- > 0;) {
    if (!is_forward[i]) continue;
    const Op& op = program_.ops()[i];
    if (!is_of_batch[i]) {
      int reader = num_stages_;
      for (ValueId id : op.results) reader = std::min(reader, first_reader[id]);
      if (reader < num_stages_) stage_[i] = reader;
    }
    ForEachValue(op.arguments, [&](ValueId id) {
      first_reader[id] = std::min(first_reader[id], stage_[i]);
    });
    op_class_[i] = JobClass{JobType::kForward, stage_[i]};
  }
  for (const Variable& variable : program_.variables()) {
    const int reader = first_reader[variable.value];
    if (reader < num_stages_) variable_stage_[variable.value] = reader;
  }
}

int StageMap::variable_stage(ValueId variable) const {
  const auto it = variable_stage_.find(variable);
  return it == variable_stage_.end() ? 0 : it->second;
}

absl::flat_hash_map<absl::string_view, int> StageMap::StagesOfScopes() const {
  absl::flat_hash_map<absl::string_view, int> stages;
  for (size_t i = 0; i < op_class_.size(); ++i) {
    const auto& scope = program_.ops()[i].source.scope;
    if (!op_class_[i].has_value() || scope == nullptr) continue;
    const auto [it, is_new] = stages.try_emplace(*scope, stage_[i]);
    if (it->second != stage_[i]) it->second = -1;
  }
  return stages;
}

void StageMap::PlaceBackward(const std::vector<bool>& is_backward) {
  // The last of the stages whose gradients need a value: it can't be computed
  // before that one.
  std::vector<int> last_needed(program_.num_values(), 0);
  std::vector<int> at_least(is_backward.size(), 0);
  for (const auto& [gradient, variable] : variable_of_gradient_) {
    last_needed[gradient] = variable_stage(variable);
  }
  for (size_t i = is_backward.size(); i-- > 0;) {
    if (!is_backward[i]) continue;
    const Op& op = program_.ops()[i];
    for (ValueId id : op.results) {
      at_least[i] = std::max(at_least[i], last_needed[id]);
    }
    ForEachValue(op.arguments, [&](ValueId id) {
      last_needed[id] = std::max(last_needed[id], at_least[i]);
    });
  }
  const absl::flat_hash_map<absl::string_view, int> stage_of_scope =
      StagesOfScopes();
  for (size_t i = 0; i < is_backward.size(); ++i) {
    if (!is_backward[i]) continue;
    int at_most = num_stages_ - 1;
    int wanted = -1;
    ForEachValue(program_.ops()[i].arguments, [&](ValueId id) {
      const std::optional<OpId> producer = ProducerOf(id);
      if (producer.has_value() && is_backward[*producer]) {
        at_most = std::min(at_most, stage_[*producer]);
      } else if (producer.has_value()) {
        wanted = std::max(wanted, stage_[*producer]);
      } else if (const auto it = variable_stage_.find(id);
                 it != variable_stage_.end()) {
        wanted = std::max(wanted, it->second);
      }
    });
    if (const auto& scope = program_.ops()[i].source.scope; scope != nullptr) {
      const auto it = stage_of_scope.find(*scope);
      if (it != stage_of_scope.end() && it->second >= 0) wanted = it->second;
    }
    if (wanted < 0) wanted = at_most;
    stage_[i] = std::clamp(wanted, at_least[i], at_most);
    op_class_[i] = JobClass{JobType::kBackward, stage_[i]};
  }
}

// What a stage before reads, and all that it takes, is the inputs' part.
void StageMap::SplitBackward(const std::vector<bool>& is_backward) {
  if (!is_split_) return;
  std::vector<bool> is_sent(is_backward.size(), false);
  for (const auto& [gradient, variable] : variable_of_gradient_) {
    const std::optional<OpId> producer = ProducerOf(gradient);
    if (variable_stage(variable) < stage_[*producer]) is_sent[*producer] = true;
  }
  for (size_t i = is_backward.size(); i-- > 0;) {
    if (!is_backward[i]) continue;
    op_class_[i]->type =
        is_sent[i] ? JobType::kBackwardInput : JobType::kBackwardWeight;
    ForEachValue(program_.ops()[i].arguments, [&](ValueId id) {
      const std::optional<OpId> producer = ProducerOf(id);
      if (!producer.has_value() || !is_backward[*producer]) return;
      if (is_sent[i] || stage_[i] < stage_[*producer]) {
        is_sent[*producer] = true;
      }
    });
  }
}

void StageMap::FindGradientStages() {
  gradient_stage_.assign(program_.num_values(), std::nullopt);
  is_joined_.assign(program_.num_values(), false);
  for (const auto& [gradient, variable] : variable_of_gradient_) {
    gradient_stage_[gradient] = variable_stage(variable);
  }
  for (const Op& op : program_.ops()) {
    std::optional<int> stage;
    ForEachValue(op.arguments, [&](ValueId id) {
      const std::optional<int> of_argument = gradient_stage_[id];
      if (!of_argument.has_value()) return;
      stage =
          stage.value_or(*of_argument) == *of_argument ? of_argument : kSeveral;
    });
    for (ValueId id : op.results) {
      if (!variable_of_gradient_.contains(id)) gradient_stage_[id] = stage;
    }
    if (stage != kSeveral) continue;
    ForEachValue(op.arguments, [&](ValueId id) {
      is_joined_[id] =
          gradient_stage_[id].has_value() && gradient_stage_[id] != kSeveral;
    });
  }
}

std::optional<int> StageMap::StageOfUpdate(const Update& update) const {
  const std::optional<int> stage = gradient_stage_[update.value];
  if (stage != kSeveral) return stage;
  // Scaled by a norm over all gradients, say: its own are its variable's.
  const auto it = variable_stage_.find(update.target);
  if (it == variable_stage_.end()) return std::nullopt;
  return it->second;
}

void StageMap::PlaceUpdates() {
  update_stage_.assign(is_late_.size(), std::nullopt);
  absl::flat_hash_map<ValueId, int> stage_of_target;
  // First those of which that is known; the others, such as of an optimizer's
  // state, go where their variable is read.
  for (const bool is_known : {true, false}) {
    for (size_t i = 0; i < is_late_.size(); ++i) {
      if (!is_late_[i] || update_stage_[i].has_value()) continue;
      const Update& update = program_.updates()[i];
      std::optional<int> stage = StageOfUpdate(update);
      if (!is_known) {
        const auto it = stage_of_target.find(update.target);
        stage = it == stage_of_target.end() ? 0 : it->second;
      }
      if (!stage.has_value()) continue;
      update_stage_[i] = stage;
      if (gradient_stage_[update.value] == kSeveral) needs_reduce_ = true;
      for (const ValueId variable :
           VariablesOf(program_, update.value, variable_of_gradient_)) {
        stage_of_target.try_emplace(variable, *stage);
      }
    }
  }
}

// An update's ops are its own: none may run for each micro-batch.
absl::Status StageMap::CheckUpdates() const {
  std::vector<bool> is_fed(program_.num_values(), false);
  for (ValueId id : program_.inputs()) is_fed[id] = true;
  for (size_t i = 0; i < program_.ops().size(); ++i) {
    bool any = false;
    ForEachValue(program_.ops()[i].arguments,
                 [&](ValueId id) { any = any || is_fed[id]; });
    if (!any || !op_class_[i].has_value()) continue;
    for (ValueId id : program_.ops()[i].results) is_fed[id] = true;
  }
  std::vector<ValueId> late;
  for (size_t i = 0; i < is_late_.size(); ++i) {
    if (is_late_[i]) late.push_back(program_.updates()[i].value);
  }
  for (ValueId id : program_.outputs()) {
    if (is_of_all_batches_[id]) late.push_back(id);
  }
  const std::vector<bool> found = Ancestors(late, true);
  for (size_t i = program_.ops().size(); i-- > 0;) {
    const Op& op = program_.ops()[i];
    if (!op_class_[i].has_value()) continue;
    for (ValueId id : op.results) {
      if (!found[id] || variable_of_gradient_.contains(id)) continue;
      if (!is_fed[id] && !op.def->has_effect()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("%", program_.value(id).name, " of ", Describe(op),
                       " is a micro-batch's, but an update reads it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace mica
