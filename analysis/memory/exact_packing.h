// A packing within a capacity, or the proof that there is none.

#ifndef MICA_ANALYSIS_MEMORY_EXACT_PACKING_H_
#define MICA_ANALYSIS_MEMORY_EXACT_PACKING_H_

#include <cstdint>

#include "analysis/memory/niche_search.h"
#include "analysis/memory/packing.h"

namespace mica {

struct ExactResult {
  SearchOutcome outcome = SearchOutcome::kStopped;
  Stack stack;       // If it fits.
  int64_t work = 0;  // Blocks looked at.
};

// Searches until it fits, is impossible, or has looked at `max_work` blocks. A
// search that takes long has decided something wrong early on: it is given up
// and begun anew in another style, ever later, with what it has learnt.
// `overlaps` are those of `packing`.
ExactResult PackWithin(const Packing& packing, const BlockLists& overlaps,
                       int64_t capacity, int64_t max_work);

}  // namespace mica

#endif  // MICA_ANALYSIS_MEMORY_EXACT_PACKING_H_
