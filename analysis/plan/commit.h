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

// For each value the input or variable whose memory it is computed in; kNoValue
// for the others. Such a value's op runs with the updates, in the program's
// order, and in place of the copies that these would be: its kernel can't fail,
// nothing but updates reads its results, no op of the kind before it has
// overwritten what it reads, and it may itself read what it overwrites.
//
// `prepared_of` gives the kernel of an op, null if it has none.
std::vector<ValueId> FindCommitTargets(
    const Program& program, absl::Span<const Resolved> resolved,
    absl::Span<const int> uses,
    const std::function<const Prepared*(const Op&)>& prepared_of);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_COMMIT_H_
