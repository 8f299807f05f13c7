#include "analysis/plan/commit.h"

#include <cstdint>

namespace mica {
namespace {

class CommitFinder {
 public:
  CommitFinder(const Program& program, absl::Span<const Resolved> resolved,
               absl::Span<const int> uses)
      : program_(program),
        resolved_(resolved),
        uses_(uses),
        target_of_(program.num_values(), kNoValue),
        is_written_(program.num_values(), false) {
    for (const Update& update : program.updates()) {
      const Value& value = program.value(update.value);
      const bool fits = value.kind == ValueKind::kResult &&
                        resolved[update.value].base == update.value &&
                        uses[update.value] == 1 &&
                        *value.type == program.type(update.target);
      if (fits) target_of_[update.value] = update.target;
    }
  }

  std::vector<ValueId> Run(
      const std::function<const Prepared*(const Op&)>& prepared_of) {
    std::vector<ValueId> targets(program_.num_values(), kNoValue);
    for (const Op& op : program_.ops()) {
      if (!OnlyUpdates(op)) continue;
      const Prepared* prepared = prepared_of(op);
      if (prepared == nullptr || !prepared->never_fails ||
          !MayOverwrite(op, *prepared)) {
        continue;
      }
      for (ValueId result : op.results) {
        if (uses_[result] == 0) continue;
        targets[result] = target_of_[result];
        is_written_[target_of_[result]] = true;
      }
    }
    return targets;
  }

 private:
  // True if there are results and each that is read is an update's.
  bool OnlyUpdates(const Op& op) const {
    bool has_target = false;
    for (ValueId result : op.results) {
      if (uses_[result] == 0) continue;
      if (target_of_[result] == kNoValue) return false;
      has_target = true;
    }
    return has_target && !op.def->is_view();
  }

  bool MayOverwrite(const Op& op, const Prepared& prepared) const {
    bool may = true;
    uint32_t operand = 0;
    ForEachValue(op.arguments, [&](ValueId id) {
      const ValueId base = resolved_[id].base;
      may = may && !is_written_[base];
      for (size_t r = 0; r < op.results.size(); ++r) {
        if (uses_[op.results[r]] == 0) continue;
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

  const Program& program_;
  absl::Span<const Resolved> resolved_;
  absl::Span<const int> uses_;
  std::vector<ValueId> target_of_;  // By value: what its one update writes.
  std::vector<bool> is_written_;    // Externals, by an op that was accepted.
};

}  // namespace

std::vector<ValueId> FindCommitTargets(
    const Program& program, absl::Span<const Resolved> resolved,
    absl::Span<const int> uses,
    const std::function<const Prepared*(const Op&)>& prepared_of) {
  return CommitFinder(program, resolved, uses).Run(prepared_of);
}

}  // namespace mica
