#include "analysis/schedule/gradients.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace mica {
namespace {

// By value: what a backward op is computed from.
std::vector<bool> ReadByBackward(const Program& program) {
  std::vector<bool> found(program.num_values(), false);
  for (size_t i = program.ops().size(); i-- > 0;) {
    const Op& op = program.ops()[i];
    bool is_needed = op.source.is_backward;
    for (ValueId id : op.results) is_needed = is_needed || found[id];
    if (!is_needed) continue;
    ForEachValue(op.arguments, [&](ValueId id) { found[id] = true; });
  }
  return found;
}

// Which variables an update reads the results of backward ops for.
class GradientUses {
 public:
  explicit GradientUses(const Program& program)
      : program_(program), reach_(program.num_values()) {
    const std::vector<bool> for_backward = ReadByBackward(program);
    std::vector<bool> is_gradient(program.num_values(), false);
    std::vector<bool> is_read(program.num_values(), false);
    for (const Op& op : program.ops()) {
      if (op.source.is_backward) {
        for (ValueId id : op.results) is_gradient[id] = true;
        continue;
      }
      bool is_forward = false;
      for (ValueId id : op.results) is_forward = is_forward || for_backward[id];
      ForEachValue(op.arguments, [&](ValueId id) {
        if (is_gradient[id]) variables_.try_emplace(id);
        if (is_forward) is_read[id] = true;
        Reach(op, is_gradient, id);
      });
    }
    for (const Update& update : program.updates()) {
      if (is_gradient[update.value]) {
        // A gradient that is kept, as itself or added to others.
        variables_.try_emplace(update.value);
        kept_in_[update.value] = update.target;
        continue;
      }
      if (!is_read[update.target]) continue;
      for (ValueId gradient : reach_[update.value]) {
        variables_[gradient].insert(update.target);
      }
    }
    for (auto& [gradient, variables] : variables_) {
      const auto it = kept_in_.find(gradient);
      if (variables.empty() && it != kept_in_.end()) {
        variables.insert(it->second);
      }
    }
  }

  const std::map<ValueId, std::set<ValueId>>& variables() const {
    return variables_;
  }

 private:
  // Follows a gradient through ops on tensors of its size: a norm over all of
  // them, by which each is scaled, makes none of them another one's.
  void Reach(const Op& op, const std::vector<bool>& is_gradient, ValueId id) {
    const int64_t size = program_.type(id).num_elements();
    for (ValueId result : op.results) {
      const bool is_of_size = program_.type(result).num_elements() == size &&
                              (size > 1 || op.def->is_elementwise());
      if (!is_of_size && !op.def->is_view()) continue;
      std::set<ValueId>& to = reach_[result];
      if (is_gradient[id]) {
        to.insert(id);
      } else {
        to.insert(reach_[id].begin(), reach_[id].end());
      }
    }
  }

  const Program& program_;
  std::vector<std::set<ValueId>> reach_;  // By value.
  std::map<ValueId, std::set<ValueId>> variables_;
  std::map<ValueId, ValueId> kept_in_;
};

}  // namespace

absl::StatusOr<absl::flat_hash_map<ValueId, ValueId>> FindGradients(
    const Program& program) {
  absl::flat_hash_map<ValueId, ValueId> gradients;
  if (absl::c_none_of(program.ops(),
                      [](const Op& op) { return op.source.is_backward; })) {
    return gradients;
  }
  const GradientUses uses(program);
  for (const auto& [gradient, variables] : uses.variables()) {
    const std::string& name = program.value(gradient).name;
    if (variables.size() != 1) {
      std::string names;
      for (ValueId id : variables) {
        absl::StrAppend(&names, names.empty() ? " of " : " and of ",
                        program.value(id).name);
      }
      return absl::InvalidArgumentError(
          absl::StrCat("%", name, " of ",
                       Describe(program.ops()[program.value(gradient).index]),
                       " is the gradient", names.empty() ? " of none" : names,
                       ", wants one variable that the update reads it for"));
    }
    gradients[gradient] = *variables.begin();
  }
  if (gradients.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program @", program.name(),
                     " has a backward pass, but no update reads a gradient"));
  }
  return gradients;
}

}  // namespace mica
