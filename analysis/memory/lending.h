// Memory of a run's results serves as scratch until they are written.

#ifndef MICA_ANALYSIS_MEMORY_LENDING_H_
#define MICA_ANALYSIS_MEMORY_LENDING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analysis/memory/arena.h"

namespace mica {

// Bytes that nobody needs before step `first_write`.
struct Lender {
  int64_t bytes = 0;
  int32_t first_write = 0;
};

// Where a Lifetime lies instead of in the arena.
struct Loan {
  int32_t lender = -1;  // -1: in the arena.
  int64_t offset = 0;   // In bytes, a multiple of kBufferAlignment.
  friend bool operator==(const Loan&, const Loan&) = default;
};

// A Loan for each lifetime, or none at all if no more than `enough` bytes are
// ever alive, so that fewer bytes are alive at once in the arena:
// takes out the largest that are alive where most are, again and again, until
// none of those fits a lender or no more than `enough` bytes are alive. No two
// that overlap in time overlap in bytes, and all end before their lender's
// first write.
std::vector<Loan> LendMemory(absl::Span<const Lifetime> lifetimes,
                             absl::Span<const Lender> lenders,
                             int64_t enough = 0);

}  // namespace mica

#endif  // MICA_ANALYSIS_MEMORY_LENDING_H_
