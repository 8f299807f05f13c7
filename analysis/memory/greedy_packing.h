// Packings that are found at once, without a search through alternatives.

#ifndef MICA_ANALYSIS_MEMORY_GREEDY_PACKING_H_
#define MICA_ANALYSIS_MEMORY_GREEDY_PACKING_H_

#include <cstdint>

#include "absl/types/span.h"
#include "analysis/memory/packing.h"

namespace mica {

// Walks through time, as an allocator would: gives each block the smallest free
// range that has its bytes. In time n log n.
Stack PackInTime(const Packing& packing);

// Places one block after the other as low as it fits; `overlaps` are those of
// `packing`. In time linear in the overlaps, but for a logarithm.
Stack PackInOrder(const Packing& packing, const BlockLists& overlaps,
                  absl::Span<const int32_t> order);

// Tries orders, by size and by time, until one needs no more than `enough`
// bytes: what sticks out at the top is placed earlier the next time. Looks at
// no more than `max_work` overlaps, but makes one try at least. Returns the
// best of all and `best`.
Stack PackByOrders(const Packing& packing, const BlockLists& overlaps,
                   int64_t enough, int64_t max_work, Stack best);

}  // namespace mica

#endif  // MICA_ANALYSIS_MEMORY_GREEDY_PACKING_H_
