// Which op of the user's Program each op comes from that passes have left.

#ifndef MICA_ANALYSIS_PLAN_ORIGIN_H_
#define MICA_ANALYSIS_PLAN_ORIGIN_H_

#include "absl/types/span.h"
#include "framework/base/large_vector.h"
#include "framework/ir/program.h"

namespace mica {

// Passes carry an op's line along, whatever they make of the op. So while they
// run, the line is a number instead: of the op with flat id i (ForEachOp()),
// origins[i].
void NumberSources(absl::Span<const OpId> origins, Program& program);

// Puts the lines of `from` in the numbers' place and returns these, by flat id;
// -1 for an op that a pass added without a line. A number is a flat id, too.
LargeVector<OpId> RestoreSources(const Program& from, Program& program);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_ORIGIN_H_
