// How a branch, a loop or a call runs as one step of a Plan.

#ifndef MICA_ANALYSIS_PLAN_CONTROL_PLAN_H_
#define MICA_ANALYSIS_PLAN_CONTROL_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/plan/plan.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/program.h"

namespace mica {

// The Plans of an op's bodies, in its order, and where they work: in the step's
// scratch memory. Then and else, condition and body lie in the same bytes of
// it, since only one of two runs at a time.
//
// Bodies read operands where they are. Packed copies of frozen ones are made by
// the Binding, as for other steps: they follow the step's operands, those that
// the first body wants, then those of the second. A branch, as a call, writes
// into the step's results. What a loop carries has two homes, its result's
// memory and a spare one, and each round reads one and writes the other: a
// round never overwrites what it still reads, and nothing is copied between
// rounds. The first round reads the initial values where they are; after an
// even number of rounds the last values are moved from the spare homes to the
// results.
//
// Immutable, part of a Plan.
struct ControlPlan {
  struct Carried {
    TensorType type;
    TensorType initial_type;    // May have other strides.
    int64_t spare_offset = 0;   // In the scratch memory.
    int64_t result_offset = 0;  // There too, but only if nobody reads it.
  };

  ControlKind kind = ControlKind::kNone;
  std::vector<std::shared_ptr<const Plan>> bodies;
  std::vector<Carried> carried;  // Of a loop.
  // Of a call, by result: where in the scratch memory it is written if nobody
  // reads it; -1 for the others.
  std::vector<int64_t> unread;
  int64_t predicate_offset = 0;  // Of what a loop's condition returns.
  int64_t arena_offset = 0;      // Of the bodies' arenas.
  int64_t scratch_bytes = 0;

  // A body's name and its Plan's text, one after another.
  std::string ToText() const;
};

// Internal, unless the body's results lie as those of `op`, an op of `outer`,
// do.
absl::Status CheckResults(const Program& outer, const Op& op, const Plan& body);

// Internal, if a body's Plan doesn't give its values as `op`, an op of `outer`,
// says that they are. `uses` by value of `outer`.
absl::StatusOr<ControlPlan> PlanControl(
    const Program& outer, const Op& op, absl::Span<const int> uses,
    std::vector<std::shared_ptr<const Plan>> bodies);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_CONTROL_PLAN_H_
