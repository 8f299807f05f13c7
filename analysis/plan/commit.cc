#include "analysis/plan/commit.h"

#include <algorithm>
#include <cstdint>

#include "analysis/passes/program_facts.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

class CommitFinder {
 public:
  CommitFinder(const Program& program, absl::Span<const Commit> commits,
               const CommitLook& look)
      : program_(program),
        look_(look),
        target_of_(program.num_values(), kNoValue),
        is_written_(program.num_values(), false) {
    for (const Commit& commit : commits) {
      const Value& value = program.value(commit.value);
      const bool fits = value.kind == ValueKind::kResult &&
                        look.resolved[commit.value].base == commit.value &&
                        look.uses[commit.value] == 1 &&
                        look.part_targets[commit.value] == kNoValue &&
                        (commit.target == kElsewhere ||
                         *value.type == program.type(commit.target));
      if (fits) target_of_[commit.value] = commit.target;
    }
    // Nor is what was written in part there any more when updates are due.
    for (const Op& op : program.ops()) {
      if (op.results.empty() || op.def->part_write() == nullptr) continue;
      if (look.part_targets[op.results[0]] == kNoValue) continue;
      is_written_[ProgramFacts::ValueOf(op, 0)] = true;
    }
  }

  std::vector<ValueId> Run() {
    targets_.assign(program_.num_values(), kNoValue);
    for (const Op& op : program_.ops()) {
      if (ControlKindOf(*op.def) == ControlKind::kCall) {
        TakeCall(op);
        continue;
      }
      if (!OnlyUpdates(op)) continue;
      const Prepared* prepared =
          op.bodies.empty() ? look_.prepared_of(op) : nullptr;
      if (prepared == nullptr || !prepared->never_fails ||
          !MayOverwrite(op, *prepared)) {
        continue;
      }
      for (ValueId result : op.results) {
        if (look_.uses[result] > 0) Accept(result);
      }
    }
    return std::move(targets_);
  }

 private:
  ValueId BaseOf(ValueId id) const { return look_.resolved[id].base; }

  void Accept(ValueId result) {
    targets_[result] = target_of_[result];
    if (target_of_[result] >= 0) is_written_[target_of_[result]] = true;
  }

  // True if there are results and each that is read is an update's.
  bool OnlyUpdates(const Op& op) const {
    bool has_target = false;
    for (ValueId result : op.results) {
      if (look_.uses[result] == 0) continue;
      if (target_of_[result] == kNoValue) return false;
      has_target = true;
    }
    return has_target && !op.def->is_view();
  }

  bool MayOverwrite(const Op& op, const Prepared& prepared) const {
    bool may = true;
    uint32_t operand = 0;
    ForEachValue(op.arguments, [&](ValueId id) {
      const ValueId base = BaseOf(id);
      may = may && !is_written_[base];
      for (size_t r = 0; r < op.results.size(); ++r) {
        if (look_.uses[op.results[r]] == 0) continue;
        if (target_of_[op.results[r]] != base) continue;
        may = may && id == base && operand < 32 &&
              (InplaceOf(prepared, r) >> operand & 1) != 0;
      }
      ++operand;
    });
    return may;
  }

  static uint32_t InplaceOf(const Prepared& prepared, size_t result) {
    if (result == 0) return prepared.inplace_operands;
    return result <= prepared.more_inplace.size()
               ? prepared.more_inplace[result - 1]
               : 0;
  }

  void TakeCall(const Op& op) {
    const std::vector<ValueId> operands = BodyOperands(op);
    std::vector<int> wanted;
    bool wants_any = false;
    for (ValueId result : op.results) {
      wanted.push_back(WantedOf(target_of_[result], operands));
      wants_any = wants_any || wanted.back() != kNotCommitted;
    }
    if (!wants_any) return;
    const CallCommits commits = look_.commits_of(op, wanted);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (commits.inputs[i] && is_written_[BaseOf(operands[i])]) return;
    }
    for (size_t r = 0; r < op.results.size(); ++r) {
      if (commits.results[r]) Accept(op.results[r]);
    }
  }

  // Within the function nobody knows that two inputs are the same memory: what
  // is to be written may be one of them, and no part of another.
  int WantedOf(ValueId target, absl::Span<const ValueId> operands) const {
    if (target == kNoValue) return kNotCommitted;
    if (target == kElsewhere) return kNoInput;
    int input = kNoInput;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (BaseOf(operands[i]) != target) continue;
      if (input != kNoInput || operands[i] != target) return kNotCommitted;
      input = static_cast<int>(i);
    }
    return input;
  }

  const Program& program_;
  const CommitLook& look_;
  std::vector<ValueId> target_of_;  // By value: what its one update writes.
  std::vector<bool> is_written_;    // Externals, by an op that was accepted.
  std::vector<ValueId> targets_;
};

}  // namespace

std::vector<ValueId> FindCommitTargets(const Program& program,
                                       absl::Span<const Commit> commits,
                                       const CommitLook& look) {
  return CommitFinder(program, commits, look).Run();
}

}  // namespace mica
