// Views are addresses: where each value's elements really lie.

#ifndef MICA_ANALYSIS_PLAN_RESOLVE_H_
#define MICA_ANALYSIS_PLAN_RESOLVE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/large_vector.h"
#include "framework/ir/program.h"

namespace mica {

// The memory that a value is a window on.
struct Resolved {
  ValueId base = kNoValue;  // Not a view; the value itself if that is none.
  int64_t offset = 0;       // In bytes from the base's first element.
};

// One for each value of a static Program, whose views are `views`, in order.
absl::StatusOr<LargeVector<Resolved>> ResolveViews(
    const Program& program, absl::Span<const OpId> views);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_RESOLVE_H_
