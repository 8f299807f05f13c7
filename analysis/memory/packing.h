// The problem behind an arena: rectangles of time and bytes, to be stacked.

#ifndef MICA_ANALYSIS_MEMORY_PACKING_H_
#define MICA_ANALYSIS_MEMORY_PACKING_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "analysis/memory/lifetime.h"
#include "framework/base/large_vector.h"

namespace mica {

// A lifetime in sections [begin, end).
struct PackedBlock {
  int32_t begin = 0;
  int32_t end = 0;
  int64_t bytes = 0;  // A multiple of the alignment.
  // The lifetime's steps; 64 bits, as they are negative in reverse.
  int64_t first = 0;
  int64_t last = 0;
  int32_t lifetime = 0;  // Its index among the lifetimes.

  int64_t steps() const { return last - first + 1; }
};

// Lifetimes with time cut into sections: the steps up to the first that starts
// something after something has ended. Two lifetimes share a step exactly if
// their blocks share a section. Lifetimes without bytes have no block.
class Packing {
 public:
  // In time linear in the lifetimes and their steps; n log n where steps are
  // sparse.
  Packing(absl::Span<const Lifetime> lifetimes, int64_t alignment);

  absl::Span<const PackedBlock> blocks() const { return blocks_; }
  int num_blocks() const { return static_cast<int>(blocks_.size()); }
  int num_sections() const { return static_cast<int>(live_bytes_.size()); }
  // What is alive in each section.
  absl::Span<const int64_t> live_bytes() const { return live_bytes_; }
  int64_t live_set_bytes() const { return live_set_bytes_; }
  // Pairs of blocks that share a section.
  int64_t num_overlaps() const { return num_overlaps_; }

  // Backwards in time.
  Packing Reversed() const;

 private:
  void CountAlive();

  LargeVector<PackedBlock> blocks_;
  LargeVector<int64_t> live_bytes_;
  int64_t live_set_bytes_ = 0;
  int64_t num_overlaps_ = 0;
};

// Offsets of a Packing's blocks, and the end of the highest.
struct Stack {
  LargeVector<int64_t> offsets;
  int64_t bytes = 0;
};

// Bytes [begin, end) in an arena.
using ByteRange = std::pair<int64_t, int64_t>;

// The lowest offset at which `bytes` fit between `busy` ranges, sorted here.
int64_t LowestFit(absl::Span<ByteRange> busy, int64_t bytes);

// Lists of blocks, one list after the other.
class BlockLists {
 public:
  // Of each block, those that share a section with it: 4 bytes for each of
  // twice num_overlaps().
  static BlockLists Overlaps(const Packing& packing);
  // Of each section, the blocks in it.
  static BlockLists Sections(const Packing& packing);

  absl::Span<const int32_t> operator[](int32_t i) const {
    return absl::MakeConstSpan(blocks_).subspan(begins_[i],
                                                begins_[i + 1] - begins_[i]);
  }

 private:
  std::vector<int64_t> begins_;
  std::vector<int32_t> blocks_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_MEMORY_PACKING_H_
