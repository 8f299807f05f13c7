// Views are addresses: where each value's elements really lie.

#ifndef MICA_ANALYSIS_PLAN_RESOLVE_H_
#define MICA_ANALYSIS_PLAN_RESOLVE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/base/large_vector.h"
#include "framework/ir/program.h"

namespace mica {

// The memory that a value is a window on.
struct Resolved {
  ValueId base = kNoValue;  // Not a view; the value itself if that is none.
  int64_t offset = 0;       // In bytes from the base's first element.
};

// One for each value of a static Program.
absl::StatusOr<LargeVector<Resolved>> ResolveViews(const Program& program);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_RESOLVE_H_
