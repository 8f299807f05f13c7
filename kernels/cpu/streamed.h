// Results that are too large for the caches, written past them.

#ifndef MICA_KERNELS_CPU_STREAMED_H_
#define MICA_KERNELS_CPU_STREAMED_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/ready_region.h"

namespace mica::cpu {

// A plain store first reads the line that it writes to, and what it writes
// drives out what else is in the caches. Where a launch goes through more than
// they hold it is therefore faster to write past them: by way of a buffer of so
// many bytes, which stays in the first-level cache. A larger one is slower:
// reading and writing then wait for each other.
inline constexpr int64_t kStreamBytes = 2048;

// Whether a launch that reads and writes so many bytes is better streamed.
bool IsWorthStreaming(int64_t bytes);

// Copies what lies in a buffer past the caches.
void StreamOut(const void* buffer, void* to, int64_t bytes);
// What this thread has streamed is seen by others that are told to look.
void EndStream();

// A dense result of a region.
struct StreamedResult {
  int array = 0;
  int64_t bytes = 4;  // Of an element.
};
inline constexpr int kMostStreamed = 4;

// The region with its results streamed, none of which may lie where an operand
// does. Wants EndStream() behind it.
void RunStreamed(const ReadyRegion& region, const region::RegionRows& rows,
                 int num_arrays, absl::Span<const StreamedResult> results);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_STREAMED_H_
