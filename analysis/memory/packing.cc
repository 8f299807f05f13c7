#include "analysis/memory/packing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "glog/logging.h"

namespace mica {
namespace {

// Steps are looked up in a table as long as it isn't much longer than the list.
constexpr int64_t kMaxStepsPerLifetime = 16;

// Numbers the steps from 0: as they are, or the ones in use alone.
class Steps {
 public:
  explicit Steps(absl::Span<const PackedBlock> blocks) {
    int64_t last = std::numeric_limits<int64_t>::min();
    first_ = std::numeric_limits<int64_t>::max();
    for (const PackedBlock& block : blocks) {
      CHECK_LE(block.first, block.last);
      first_ = std::min(first_, block.first);
      last = std::max(last, block.last);
    }
    size_ = last - first_ + 1;
    const auto count = static_cast<int64_t>(blocks.size());
    if (size_ <= kMaxStepsPerLifetime * count) return;
    for (const PackedBlock& block : blocks) {
      used_.push_back(block.first);
      used_.push_back(block.last);
    }
    std::sort(used_.begin(), used_.end());
    used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
    size_ = static_cast<int64_t>(used_.size());
  }

  int64_t size() const { return size_; }
  int64_t operator[](int64_t step) const {
    if (used_.empty()) return step - first_;
    return std::lower_bound(used_.begin(), used_.end(), step) - used_.begin();
  }

 private:
  int64_t first_ = 0;
  int64_t size_ = 0;
  std::vector<int64_t> used_;
};

}  // namespace

Packing::Packing(absl::Span<const Lifetime> lifetimes, int64_t alignment) {
  CHECK_GT(alignment, 0);
  blocks_.reserve(lifetimes.size());
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& lifetime = lifetimes[i];
    if (lifetime.bytes <= 0) continue;
    blocks_.push_back(
        {.bytes = (lifetime.bytes + alignment - 1) / alignment * alignment,
         .first = lifetime.first,
         .last = lifetime.last,
         .lifetime = static_cast<int32_t>(i)});
  }
  if (blocks_.empty()) return;
  const Steps steps(blocks_);
  std::vector<bool> starts(steps.size());
  std::vector<bool> ends(steps.size());
  for (PackedBlock& block : blocks_) {
    block.begin = static_cast<int32_t>(steps[block.first]);
    block.end = static_cast<int32_t>(steps[block.last]);
    starts[block.begin] = true;
    ends[block.end] = true;
  }
  LargeVector<int32_t> sections(steps.size());
  int32_t section = -1;
  bool has_ended = true;
  for (int64_t step = 0; step < steps.size(); ++step) {
    if (starts[step] && has_ended) {
      ++section;
      has_ended = false;
    }
    if (ends[step]) has_ended = true;
    sections[step] = section;
  }
  for (PackedBlock& block : blocks_) {
    block.begin = sections[block.begin];
    block.end = sections[block.end] + 1;
  }
  live_bytes_.resize(section + 1);
  CountAlive();
}

void Packing::CountAlive() {
  const int count = num_sections();
  struct Change {
    int64_t bytes = 0;
    int32_t starting = 0;
    int32_t ending = 0;
  };
  LargeVector<Change> changes(count + 1);
  for (const PackedBlock& block : blocks_) {
    changes[block.begin].bytes += block.bytes;
    changes[block.end].bytes -= block.bytes;
    ++changes[block.begin].starting;
    ++changes[block.end].ending;
  }
  int64_t bytes = 0;
  int64_t alive = 0;
  for (int section = 0; section < count; ++section) {
    const Change& change = changes[section];
    live_bytes_[section] = bytes += change.bytes;
    live_set_bytes_ = std::max(live_set_bytes_, bytes);
    alive -= change.ending;
    const int64_t more = change.starting;
    num_overlaps_ += alive * more + more * (more - 1) / 2;
    alive += more;
  }
}

Packing Packing::Reversed() const {
  Packing reversed = *this;
  const int count = num_sections();
  std::reverse(reversed.live_bytes_.begin(), reversed.live_bytes_.end());
  for (PackedBlock& block : reversed.blocks_) {
    block.begin = count - std::exchange(block.end, count - block.begin);
    block.first = -std::exchange(block.last, -block.first);
  }
  return reversed;
}

BlockLists BlockLists::Sections(const Packing& packing) {
  BlockLists lists;
  lists.begins_.resize(packing.num_sections() + 1);
  for (const PackedBlock& block : packing.blocks()) {
    for (int32_t s = block.begin; s < block.end; ++s) ++lists.begins_[s + 1];
  }
  std::partial_sum(lists.begins_.begin(), lists.begins_.end(),
                   lists.begins_.begin());
  lists.blocks_.resize(lists.begins_.back());
  std::vector<int64_t> next = lists.begins_;
  for (int32_t i = 0; i < packing.num_blocks(); ++i) {
    const PackedBlock& block = packing.blocks()[i];
    for (int32_t s = block.begin; s < block.end; ++s) {
      lists.blocks_[next[s]++] = i;
    }
  }
  return lists;
}

int64_t LowestFit(absl::Span<ByteRange> busy, int64_t bytes) {
  // Of those that begin at one place the order makes no difference.
  std::sort(
      busy.begin(), busy.end(),
      [](const ByteRange& a, const ByteRange& b) { return a.first < b.first; });
  int64_t offset = 0;
  for (const auto& [begin, end] : busy) {
    if (begin - offset >= bytes) break;
    offset = std::max(offset, end);
  }
  return offset;
}

BlockLists BlockLists::Overlaps(const Packing& packing) {
  const absl::Span<const PackedBlock> blocks = packing.blocks();
  std::vector<std::vector<int32_t>> starting(packing.num_sections());
  for (int32_t i = 0; i < packing.num_blocks(); ++i) {
    starting[blocks[i].begin].push_back(i);
  }
  std::vector<std::pair<int32_t, int32_t>> pairs;
  pairs.reserve(packing.num_overlaps());
  std::vector<int32_t> alive;
  for (int32_t section = 0; section < packing.num_sections(); ++section) {
    alive.erase(
        std::remove_if(alive.begin(), alive.end(),
                       [&](int32_t i) { return blocks[i].end <= section; }),
        alive.end());
    for (int32_t i : starting[section]) {
      for (int32_t other : alive) pairs.emplace_back(i, other);
      alive.push_back(i);
    }
  }
  BlockLists lists;
  lists.begins_.resize(blocks.size() + 1);
  for (const auto& [a, b] : pairs) {
    ++lists.begins_[a + 1];
    ++lists.begins_[b + 1];
  }
  std::partial_sum(lists.begins_.begin(), lists.begins_.end(),
                   lists.begins_.begin());
  lists.blocks_.resize(lists.begins_.back());
  std::vector<int64_t> next = lists.begins_;
  for (const auto& [a, b] : pairs) {
    lists.blocks_[next[a]++] = b;
    lists.blocks_[next[b]++] = a;
  }
  return lists;
}

}  // namespace mica
