#include "analysis/memory/greedy_packing.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"

namespace mica {
namespace {

// Free ranges of an arena that grows at its end.
class FreeList {
 public:
  // The offset of `bytes` in the smallest range that has them, the lowest of
  // these; grows if none.
  int64_t Take(int64_t bytes) {
    for (auto it = by_size_.lower_bound(bytes); it != by_size_.end();
         it = by_size_.erase(it)) {
      const int64_t size = it->first;
      std::vector<int64_t>& offsets = heaps_[it->second];
      while (!offsets.empty()) {
        const int64_t offset = offsets.front();
        std::pop_heap(offsets.begin(), offsets.end(), std::greater<>());
        offsets.pop_back();
        const auto range = sizes_.find(offset);
        if (range == sizes_.end() || range->second != size) continue;
        sizes_.erase(range);
        begins_.erase(offset + size);
        if (size > bytes) Add(offset + bytes, size - bytes);
        return offset;
      }
      empty_heaps_.push_back(it->second);
    }
    return Grow(bytes);
  }

  void Give(int64_t offset, int64_t bytes) {
    if (const auto before = begins_.find(offset); before != begins_.end()) {
      const int64_t begin = before->second;
      begins_.erase(before);
      sizes_.erase(begin);
      bytes += offset - begin;
      offset = begin;
    }
    if (const auto next = sizes_.find(offset + bytes); next != sizes_.end()) {
      const int64_t size = next->second;
      sizes_.erase(next);
      begins_.erase(offset + bytes + size);
      bytes += size;
    }
    Add(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  void Add(int64_t offset, int64_t size) {
    sizes_.emplace(offset, size);
    begins_.emplace(offset + size, offset);
    const auto [it, is_new] = by_size_.try_emplace(size, 0);
    if (is_new) it->second = NewHeap();
    std::vector<int64_t>& offsets = heaps_[it->second];
    offsets.push_back(offset);
    std::push_heap(offsets.begin(), offsets.end(), std::greater<>());
  }

  int32_t NewHeap() {
    if (empty_heaps_.empty()) {
      heaps_.emplace_back();
      return static_cast<int32_t>(heaps_.size()) - 1;
    }
    const int32_t heap = empty_heaps_.back();
    empty_heaps_.pop_back();
    return heap;
  }

  // Extends the free range at the end, if there is one.
  int64_t Grow(int64_t bytes) {
    int64_t offset = end_;
    if (const auto last = begins_.find(end_); last != begins_.end()) {
      offset = last->second;
      begins_.erase(last);
      sizes_.erase(offset);
    }
    end_ = offset + bytes;
    return offset;
  }

  absl::flat_hash_map<int64_t, int64_t> sizes_;   // By where a range begins,
  absl::flat_hash_map<int64_t, int64_t> begins_;  // and by where it ends.
  absl::btree_map<int64_t, int32_t> by_size_;     // Heaps.
  // The lowest offset first. What is no range of this size any more is dropped
  // when it comes to the top.
  std::vector<std::vector<int64_t>> heaps_;
  std::vector<int32_t> empty_heaps_;
  int64_t end_ = 0;
};

// The blocks by a section of theirs, in their own order within it.
struct BlocksOfSections {
  LargeVector<int32_t> begins;  // In `order`, by section; then the end.
  LargeVector<int32_t> order;
};

BlocksOfSections BySection(const Packing& packing,
                           int32_t PackedBlock::*section) {
  BlocksOfSections by;
  // Two more than the sections: what is counted in one begins in the next.
  by.begins.resize(packing.num_sections() + 3);
  const auto next = by.begins.begin() + 1;
  for (const PackedBlock& block : packing.blocks()) ++next[block.*section + 1];
  std::partial_sum(by.begins.begin(), by.begins.end(), by.begins.begin());
  by.order.resize(packing.num_blocks());
  for (int32_t i = 0; i < packing.num_blocks(); ++i) {
    by.order[next[packing.blocks()[i].*section]++] = i;
  }
  return by;
}

bool StartsBefore(const PackedBlock& a, const PackedBlock& b) {
  return a.first != b.first ? a.first < b.first : a.bytes > b.bytes;
}

bool IsLarger(const PackedBlock& a, const PackedBlock& b) {
  return a.bytes != b.bytes ? a.bytes > b.bytes : a.begin < b.begin;
}

bool LivesLonger(const PackedBlock& a, const PackedBlock& b) {
  return a.steps() != b.steps() ? a.steps() > b.steps() : IsLarger(a, b);
}

constexpr int64_t kMaxTries = 64;

// Blocks that are placed one by one, each as low as those leave room that are
// alive with it and were placed before.
class Placement {
 public:
  Placement(const Packing& packing, const BlockLists& overlaps)
      : blocks_(packing.blocks()),
        overlaps_(overlaps),
        keeps_order_(blocks_.size() <= kMostInOrder),
        is_placed_(blocks_.size()),
        last_seen_(keeps_order_ ? blocks_.size() : 0, -1) {
    stack_.offsets.resize(blocks_.size());
  }

  void Place(int32_t block) {
    // To look at all that are placed, in their order, or to sort some of them.
    constexpr size_t kWorthSorting = 8;
    const bool scans = keeps_order_ && overlaps_[block].size() * kWorthSorting >
                                           by_offset_.size();
    const int64_t offset = scans ? LowestOfAll(block) : LowestOfSome(block);
    stack_.offsets[block] = offset;
    stack_.bytes = std::max(stack_.bytes, offset + blocks_[block].bytes);
    is_placed_[block] = true;
    if (!keeps_order_) return;
    const auto at = std::upper_bound(by_offset_.begin(), by_offset_.end(),
                                     offset, [&](int64_t here, int32_t other) {
                                       return here < stack_.offsets[other];
                                     });
    by_offset_.insert(at, block);
  }

  Stack stack() && { return std::move(stack_); }

 private:
  // Of more, each one that is placed moves too many.
  static constexpr size_t kMostInOrder = 8192;

  int64_t LowestOfAll(int32_t block) {
    for (int32_t other : overlaps_[block]) last_seen_[other] = block;
    int64_t offset = 0;
    for (int32_t other : by_offset_) {
      if (last_seen_[other] != block) continue;
      const int64_t begin = stack_.offsets[other];
      if (begin - offset >= blocks_[block].bytes) break;
      offset = std::max(offset, begin + blocks_[other].bytes);
    }
    return offset;
  }

  int64_t LowestOfSome(int32_t block) {
    busy_.clear();
    for (int32_t other : overlaps_[block]) {
      if (!is_placed_[other]) continue;
      const int64_t offset = stack_.offsets[other];
      busy_.emplace_back(offset, offset + blocks_[other].bytes);
    }
    return LowestFit(absl::MakeSpan(busy_), blocks_[block].bytes);
  }

  const absl::Span<const PackedBlock> blocks_;
  const BlockLists& overlaps_;
  const bool keeps_order_;
  std::vector<bool> is_placed_;
  std::vector<int32_t> by_offset_;  // Those that are placed, the lowest first.
  std::vector<int32_t> last_seen_;  // By block: which one it was alive with.
  std::vector<ByteRange> busy_;
  Stack stack_;
};

}  // namespace

Stack PackInTime(const Packing& packing) {
  const absl::Span<const PackedBlock> blocks = packing.blocks();
  Stack stack{.offsets = LargeVector<int64_t>(blocks.size())};
  BlocksOfSections starting = BySection(packing, &PackedBlock::begin);
  const BlocksOfSections ending = BySection(packing, &PackedBlock::end);
  FreeList free_list;
  for (int32_t section = 0; section < packing.num_sections(); ++section) {
    for (int32_t k = ending.begins[section]; k < ending.begins[section + 1];
         ++k) {
      const int32_t i = ending.order[k];
      free_list.Give(stack.offsets[i], blocks[i].bytes);
    }
    const auto first = starting.order.begin() + starting.begins[section];
    const auto last = starting.order.begin() + starting.begins[section + 1];
    const auto starts_before = [&](int32_t a, int32_t b) {
      return StartsBefore(blocks[a], blocks[b]);
    };
    if (!std::is_sorted(first, last, starts_before)) {
      std::stable_sort(first, last, starts_before);
    }
    for (auto it = first; it != last; ++it) {
      stack.offsets[*it] = free_list.Take(blocks[*it].bytes);
    }
  }
  stack.bytes = free_list.end();
  return stack;
}

Stack PackInOrder(const Packing& packing, const BlockLists& overlaps,
                  absl::Span<const int32_t> order) {
  Placement placement(packing, overlaps);
  for (int32_t i : order) placement.Place(i);
  return std::move(placement).stack();
}

Stack PackByOrders(const Packing& packing, const BlockLists& overlaps,
                   int64_t enough, int64_t max_work, Stack best) {
  const absl::Span<const PackedBlock> blocks = packing.blocks();
  const int64_t tries = std::clamp<int64_t>(
      max_work / std::max<int64_t>(2 * packing.num_overlaps(), 1), 1,
      kMaxTries);
  int64_t share = (tries + 1) / 2;  // Of the first order; then the other's.
  for (const auto before : {IsLarger, LivesLonger}) {
    std::vector<int32_t> order(blocks.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return before(blocks[a], blocks[b]);
    });
    for (int64_t i = 0; i < share && best.bytes > enough; ++i) {
      Stack stack = PackInOrder(packing, overlaps, order);
      std::stable_partition(order.begin(), order.end(), [&](int32_t block) {
        return stack.offsets[block] + blocks[block].bytes > enough;
      });
      if (stack.bytes < best.bytes) best = std::move(stack);
    }
    share = tries - share;
  }
  return best;
}

}  // namespace mica
