// Where values live in a Job's one allocation.

#ifndef MICA_ANALYSIS_MEMORY_ARENA_H_
#define MICA_ANALYSIS_MEMORY_ARENA_H_

#include <cstdint>

#include "absl/types/span.h"
#include "analysis/memory/lifetime.h"
#include "framework/base/large_vector.h"
#include "framework/tensor/tensor.h"

namespace mica {

struct ArenaOptions {
  // Of offsets; sizes are rounded up to it.
  int64_t alignment = kBufferAlignment;
  // An arena of so many bytes needn't be made smaller. 0: of a hundredth more
  // than the largest live set.
  int64_t enough_bytes = 0;
  // How long to search for a smaller one, in lifetimes looked at: the most that
  // a search takes, whatever the lifetimes, is proportional to it.
  int64_t max_search = 2'000'000;
};

// Offsets in an arena, one for each Lifetime.
struct ArenaPlan {
  LargeVector<int64_t> offsets;
  int64_t arena_bytes = 0;
  // The most bytes that are alive at once, sizes rounded up: no plan can do
  // with less.
  int64_t live_set_bytes = 0;
};

// Packs the lifetimes: no two that overlap in time overlap in bytes. As an
// allocator would, then in other orders, then by exact search: each only where
// the one before needs more than enough. The same lifetimes and options give
// the same plan.
ArenaPlan PlanArena(absl::Span<const Lifetime> lifetimes,
                    const ArenaOptions& options = {});

}  // namespace mica

#endif  // MICA_ANALYSIS_MEMORY_ARENA_H_
