// Where values live in a Job's one allocation.

#ifndef MICA_ANALYSIS_MEMORY_ARENA_H_
#define MICA_ANALYSIS_MEMORY_ARENA_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace mica {

// Bytes that are needed from the start of step `first` to the end of step
// `last`, both included.
struct Lifetime {
  int32_t first = 0;
  int32_t last = 0;
  int64_t bytes = 0;
};

// Offsets in an arena, one for each Lifetime, multiples of kBufferAlignment.
struct ArenaPlan {
  std::vector<int64_t> offsets;
  int64_t arena_bytes = 0;
  // The most bytes that are alive at once, each slice rounded up to
  // kBufferAlignment: no plan can do with less.
  int64_t live_set_bytes = 0;
};

// Packs the lifetimes: no two that overlap in time overlap in bytes. Tries
// first-fit in order of time, then by falling size where that leaves a gap to
// the live set; keeps the smaller arena.
ArenaPlan PlanArena(absl::Span<const Lifetime> lifetimes);

}  // namespace mica

#endif  // MICA_ANALYSIS_MEMORY_ARENA_H_
