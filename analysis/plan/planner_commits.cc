// What gives inputs and variables their new elements, after all else.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/plan/commit.h"
#include "analysis/plan/planner.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {

std::vector<Commit> Planner::WantedCommits() const {
  std::vector<Commit> commits;
  for (const Update& update : program().updates()) {
    commits.push_back({.value = update.value, .target = update.target});
  }
  for (size_t i = 0; i < wanted_commits_.size(); ++i) {
    const int input = wanted_commits_[i];
    if (input == kNotCommitted) continue;
    commits.push_back(
        {.value = program().outputs()[i],
         .target = input == kNoInput ? kElsewhere : program().inputs()[input]});
  }
  return commits;
}

void Planner::PlaceCommits() {
  const std::vector<Commit> wanted = WantedCommits();
  if (wanted.empty()) return;
  PlaceParts();
  commit_targets_.assign(program().num_values(), kNoValue);
  if (!options_.reuse_buffers) return;
  // What fails here is told when the op's step is added.
  std::vector<std::shared_ptr<const Prepared>> kept;
  const CommitLook look = {
      .resolved = resolved_,
      .uses = reads_.uses,
      .part_targets = part_targets_,
      .prepared_of = [&](const Op& op) -> const Prepared* {
        const auto selected = selector_.Select(MakeRequest(op));
        if (!selected.ok()) return nullptr;
        kept.push_back(selected->prepared);
        return kept.back().get();
      },
      .commits_of =
          [&](const Op& op, const std::vector<int>& of_results) {
            return CommitsOf(op, of_results);
          }};
  commit_targets_ = FindCommitTargets(program(), wanted, look);
  absl::erase_if(commit_drafts_, [&](const auto& asked) {
    const auto& results = asked.first->results;
    return std::all_of(results.begin(), results.end(), [&](ValueId id) {
      return commit_targets_[id] == kNoValue;
    });
  });
  has_commits_ = std::any_of(commit_targets_.begin(), commit_targets_.end(),
                             [](ValueId id) { return id != kNoValue; });
  if (!has_commits_) return;
  for (const Op& op : program().ops()) {
    if (!IsCommitted(op)) continue;
    for (ValueId id : op.results) {
      // A function's results stay its outputs.
      if (commit_targets_[id] >= 0 && role_ != Role::kFunction) {
        places_[id] = places_[commit_targets_[id]];
      }
    }
    // Read after ops that stand behind this one.
    if (const auto it = commit_drafts_.find(&op); it != commit_drafts_.end()) {
      const CallCommits& commits = it->second->commits;
      const std::vector<ValueId> operands = BodyOperands(op);
      for (size_t i = 0; i < operands.size(); ++i) {
        if (commits.inputs[i]) is_escaping_[resolved_[operands[i]].base] = true;
      }
      for (size_t i = 0; i < op.results.size(); ++i) {
        if (commits.kept[i]) is_escaping_[op.results[i]] = true;
      }
      continue;
    }
    ForEachValue(op.arguments,
                 [&](ValueId id) { is_escaping_[resolved_[id].base] = true; });
  }
}

bool Planner::IsCommitted(const Op& op) const {
  return has_commits_ &&
         std::any_of(op.results.begin(), op.results.end(), [&](ValueId id) {
           return commit_targets_[id] != kNoValue;
         });
}

// Two phases, so that a run that fails leaves no variable half updated: what
// an update reads from memory that another one overwrites is saved first.
absl::Status Planner::AddUpdates() {
  std::vector<Place> saved(program().updates().size());
  for (size_t i = 0; i < program().updates().size(); ++i) {
    const Update& update = program().updates()[i];
    const ValueId base = resolved_[update.value].base;
    if (!is_updated_[base] || update.value == update.target) continue;
    TensorType type = program().type(update.value);
    type.strides.clear();
    saved[i] = {.location = {.home = Home::kArena},
                .slice = NewSlice(type.num_bytes())};
    MICA_RETURN_IF_ERROR(AddCopy(absl::StrCat("save update ", i),
                                 PlaceOf(update.value),
                                 program().type(update.value), saved[i], type));
  }
  plan_->num_compute_ = current_step();
  AddUndo();
  first_commit_arg_ = plan_->args_.size();
  MICA_RETURN_IF_ERROR(AddCommits());
  return AddUpdateCopies(saved);
}

absl::Status Planner::AddUpdateCopies(const std::vector<Place>& saved) {
  for (size_t i = 0; i < program().updates().size(); ++i) {
    const Update& update = program().updates()[i];
    const bool is_there = update.value == update.target ||
                          part_targets_[update.value] != kNoValue ||
                          commit_targets_[update.value] != kNoValue;
    if (is_there) continue;
    const std::string name =
        absl::StrCat("update %", program().value(update.target).name);
    TensorType type = program().type(update.value);
    if (saved[i].slice >= 0) type.strides.clear();
    const Place from = saved[i].slice >= 0 ? saved[i] : PlaceOf(update.value);
    MICA_RETURN_IF_ERROR(AddCopy(name, from, type, places_[update.target],
                                 program().type(update.target)));
  }
  return absl::OkStatus();
}

}  // namespace mica
