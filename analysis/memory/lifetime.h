// When a value needs memory, and how much.

#ifndef MICA_ANALYSIS_MEMORY_LIFETIME_H_
#define MICA_ANALYSIS_MEMORY_LIFETIME_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace mica {

// Bytes that are needed from the start of step `first` to the end of step
// `last`, both included.
struct Lifetime {
  int32_t first = 0;
  int32_t last = 0;
  int64_t bytes = 0;
};

// Internal, naming the lifetimes, unless `offsets` has one offset for each, all
// multiples of `alignment`, every lifetime ends within `arena_bytes`, and no
// two that share a step share a byte. Knows nothing of how they were packed.
absl::Status CheckOffsets(absl::Span<const Lifetime> lifetimes,
                          absl::Span<const int64_t> offsets,
                          int64_t arena_bytes, int64_t alignment);

}  // namespace mica

#endif  // MICA_ANALYSIS_MEMORY_LIFETIME_H_
