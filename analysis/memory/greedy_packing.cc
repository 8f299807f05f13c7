#include "analysis/memory/greedy_packing.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"

namespace mica {
namespace {

// An arena that grows at its end, as ranges one behind another, taken and free.
// No two free ones touch.
class FreeList {
 public:
  // The smallest free range that has `bytes`, the lowest of these; grows if
  // none. Returns its number, until it is given back.
  int32_t Take(int64_t bytes) {
    ListFree();
    for (auto it = by_size_.lower_bound(bytes); it != by_size_.end();
         it = by_size_.erase(it)) {
      std::vector<Entry>& heap = heaps_[it->second];
      while (!heap.empty()) {
        const Entry entry = heap.front();
        std::pop_heap(heap.begin(), heap.end(), std::greater<>());
        heap.pop_back();
        const Range& range = ranges_[entry.range];
        if (!range.is_listed || range.offset != entry.offset ||
            range.bytes != it->first) {
          continue;
        }
        TakeRange(entry.range, bytes);
        return entry.range;
      }
      empty_heaps_.push_back(it->second);
    }
    return Grow(bytes);
  }

  void Give(int32_t id) {
    const int32_t before = ranges_[id].before;
    if (before >= 0 && ranges_[before].is_free) {
      Join(before, id);
      id = before;
    }
    const int32_t after = ranges_[id].after;
    if (after >= 0 && ranges_[after].is_free) Join(id, after);
    SetFree(id);
  }

  int64_t OffsetOf(int32_t id) const { return ranges_[id].offset; }
  int64_t end() const { return end_; }

 private:
  struct Range {
    int64_t offset = 0;
    int64_t bytes = 0;
    int32_t before = -1;  // Its neighbours.
    int32_t after = -1;
    bool is_free = false;
    bool is_listed = false;  // Free, and in the heap of its bytes.
  };
  struct Entry {
    int64_t offset = 0;
    int32_t range = -1;
    friend bool operator>(const Entry& a, const Entry& b) {
      return a.offset > b.offset;
    }
  };

  // Of a free range that has `bytes`; the rest of it stays free.
  void TakeRange(int32_t id, int64_t bytes) {
    ranges_[id].is_free = ranges_[id].is_listed = false;
    if (ranges_[id].bytes == bytes) return;
    const int32_t rest = NewRange({.offset = ranges_[id].offset + bytes,
                                   .bytes = ranges_[id].bytes - bytes,
                                   .before = id,
                                   .after = ranges_[id].after});
    (ranges_[rest].after < 0 ? last_ : ranges_[ranges_[rest].after].before) =
        rest;
    ranges_[id].after = rest;
    ranges_[id].bytes = bytes;
    SetFree(rest);
  }

  // Makes one of two neighbours: `id`.
  void Join(int32_t id, int32_t after) {
    Range& range = ranges_[id];
    range.bytes += ranges_[after].bytes;
    range.after = ranges_[after].after;
    (range.after < 0 ? last_ : ranges_[range.after].before) = id;
    ranges_[after] = {};
    unused_.push_back(after);
  }

  // Lists it later: what is given back together is often one range in the end.
  void SetFree(int32_t id) {
    ranges_[id].is_free = true;
    ranges_[id].is_listed = false;
    unlisted_.push_back(id);
  }

  void ListFree() {
    for (const int32_t id : unlisted_) {
      Range& range = ranges_[id];
      // Another one may have this number by now.
      if (!range.is_free || range.is_listed) continue;
      range.is_listed = true;
      const auto [it, is_new] = by_size_.try_emplace(range.bytes, 0);
      if (is_new) it->second = NewHeap();
      std::vector<Entry>& heap = heaps_[it->second];
      heap.push_back({range.offset, id});
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
    unlisted_.clear();
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

  int32_t NewRange(const Range& range) {
    if (unused_.empty()) {
      ranges_.push_back(range);
      return static_cast<int32_t>(ranges_.size()) - 1;
    }
    const int32_t id = unused_.back();
    unused_.pop_back();
    ranges_[id] = range;
    return id;
  }

  // Extends the free range at the end, if there is one.
  int32_t Grow(int64_t bytes) {
    if (last_ >= 0 && ranges_[last_].is_free) {
      ranges_[last_].is_free = ranges_[last_].is_listed = false;
      ranges_[last_].bytes = bytes;
    } else {
      const int32_t id =
          NewRange({.offset = end_, .bytes = bytes, .before = last_});
      if (last_ >= 0) ranges_[last_].after = id;
      last_ = id;
    }
    end_ = ranges_[last_].offset + bytes;
    return last_;
  }

  LargeVector<Range> ranges_;
  std::vector<int32_t> unused_;                // Numbers of none.
  std::vector<int32_t> unlisted_;              // Numbers of those that may be.
  int32_t last_ = -1;                          // The range at the end.
  absl::btree_map<int64_t, int32_t> by_size_;  // Heaps.
  // The lowest offset first. What is no range of this size any more is dropped
  // when it comes to the top.
  std::vector<std::vector<Entry>> heaps_;
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

// Keeps the order of equal ones; for ranges that are short, or sorted, mostly.
template <typename Iterator, typename Before>
void SortFew(Iterator first, Iterator last, const Before& before) {
  constexpr ptrdiff_t kFew = 16;
  if (last - first > kFew) {
    if (!std::is_sorted(first, last, before)) {
      std::stable_sort(first, last, before);
    }
    return;
  }
  for (Iterator next = first; next < last; ++next) {
    const auto value = *next;
    Iterator at = next;
    for (; at > first && before(value, *(at - 1)); --at) *at = *(at - 1);
    *at = value;
  }
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
  LargeVector<int32_t> ranges(blocks.size());  // Of those that are alive.
  for (int32_t section = 0; section < packing.num_sections(); ++section) {
    for (int32_t k = ending.begins[section]; k < ending.begins[section + 1];
         ++k) {
      const int32_t i = ending.order[k];
      free_list.Give(ranges[i]);
    }
    const auto first = starting.order.begin() + starting.begins[section];
    const auto last = starting.order.begin() + starting.begins[section + 1];
    const auto starts_before = [&](int32_t a, int32_t b) {
      return StartsBefore(blocks[a], blocks[b]);
    };
    SortFew(first, last, starts_before);
    for (auto it = first; it != last; ++it) {
      ranges[*it] = free_list.Take(blocks[*it].bytes);
      stack.offsets[*it] = free_list.OffsetOf(ranges[*it]);
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
