// Which ops write variables where they are, after all others have succeeded.

#ifndef MICA_ANALYSIS_PLAN_COMMIT_H_
#define MICA_ANALYSIS_PLAN_COMMIT_H_

#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "analysis/plan/resolve.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel.h"

namespace mica {

// The memory that a function's result is to be computed in: what the input of
// this number stands for, or one of these.
inline constexpr int kNotCommitted = -1;
inline constexpr int kNoInput = -2;  // What none of them stands for.

// What a call could compute where variables are.
struct CallCommits {
  std::vector<bool> results;  // Those that are.
  std::vector<bool> inputs;   // Those that are read then.
  std::vector<bool> kept;     // Those that have to last until then.
};

// A result, and the input or variable that takes its elements; for a function,
// its own input that stands for that, or kElsewhere.
struct Commit {
  ValueId value = kNoValue;
  ValueId target = kNoValue;
};
inline constexpr ValueId kElsewhere = -2;

// Ways to look at a Program's ops.
struct CommitLook {
  absl::Span<const Resolved> resolved;
  absl::Span<const int> uses;
  absl::Span<const ValueId> part_targets;  // By value: FindPartTargets().
  // The kernel of an op without bodies, null if it has none.
  std::function<const Prepared*(const Op&)> prepared_of;
  // What a call can do of what is wanted of its results, by result.
  std::function<CallCommits(const Op&, const std::vector<int>& wanted)>
      commits_of;
};

// For each value the input or variable, or kElsewhere, whose memory it is
// computed in; kNoValue for the others. Such a value's op runs with the
// updates, in the program's order, and in place of the copies that these would
// be: its kernel can't fail, nothing but updates reads its results, no op of
// the kind before it has overwritten what it reads, and it may itself read what
// it overwrites. Of a call the ops of its function do so.
std::vector<ValueId> FindCommitTargets(const Program& program,
                                       absl::Span<const Commit> commits,
                                       const CommitLook& look);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_COMMIT_H_
