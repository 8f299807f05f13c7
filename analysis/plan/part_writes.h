// Which ops write a part of an input or a variable where it is.

#ifndef MICA_ANALYSIS_PLAN_PART_WRITES_H_
#define MICA_ANALYSIS_PLAN_PART_WRITES_H_

#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "analysis/plan/resolve.h"
#include "framework/ir/program.h"

namespace mica {

// Ways to look at a Program's ops.
struct PartLook {
  absl::Span<const Resolved> resolved;
  // Whether a value has a place where it has to be, as outputs do.
  std::function<bool(ValueId)> is_placed;
  // Whether an op that writes a part of its first operand can do so in place,
  // and be taken back.
  std::function<bool(const Op&)> can_write;
};

// For each value the input or variable in whose memory it is computed;
// kNoValue for the others. An update of such a one has nothing left to do: its
// value is what a chain of ops makes that each write a part of what it was, and
// whoever reads an earlier state of it stands before the op that ends that. So
// one row that is written into a large buffer costs no copy of it.
//
// These ops run among the others, so a run that fails has to take back what
// they did (Plan::undo()).
std::vector<ValueId> FindPartTargets(const Program& program,
                                     const PartLook& look);

// Whether some update's value is made so. Functions would hide from
// FindPartTargets() who reads what.
bool WritesParts(const Program& program);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_PART_WRITES_H_
