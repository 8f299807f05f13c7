#include "analysis/memory/arena.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"

namespace mica {
namespace {

// Free ranges of an arena that grows at its end.
class FreeList {
 public:
  // The offset of `bytes` in the smallest range that has them; grows if none.
  int64_t Take(int64_t bytes) {
    auto best = ranges_.end();
    for (auto it = ranges_.begin(); it != ranges_.end(); ++it) {
      if (it->second < bytes) continue;
      if (best == ranges_.end() || it->second < best->second) best = it;
    }
    if (best == ranges_.end()) return Grow(bytes);
    const auto [offset, size] = *best;
    ranges_.erase(best);
    if (size > bytes) ranges_.emplace(offset + bytes, size - bytes);
    return offset;
  }

  void Give(int64_t offset, int64_t bytes) {
    auto next = ranges_.lower_bound(offset);
    if (next != ranges_.end() && offset + bytes == next->first) {
      bytes += next->second;
      next = ranges_.erase(next);
    }
    if (next != ranges_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        previous->second += bytes;
        return;
      }
    }
    ranges_.emplace(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  // Extends the free range at the end, if there is one.
  int64_t Grow(int64_t bytes) {
    int64_t offset = end_;
    if (!ranges_.empty()) {
      auto last = std::prev(ranges_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        ranges_.erase(last);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  std::map<int64_t, int64_t> ranges_;  // Offset to bytes.
  int64_t end_ = 0;
};

std::vector<int32_t> SortedBy(absl::Span<const Lifetime> lifetimes,
                              bool (*before)(const Lifetime&,
                                             const Lifetime&)) {
  std::vector<int32_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return before(lifetimes[a], lifetimes[b]);
  });
  return order;
}

bool StartsBefore(const Lifetime& a, const Lifetime& b) {
  return a.first != b.first ? a.first < b.first : a.bytes > b.bytes;
}
bool EndsBefore(const Lifetime& a, const Lifetime& b) {
  return a.last < b.last;
}
bool IsLarger(const Lifetime& a, const Lifetime& b) {
  return a.bytes != b.bytes ? a.bytes > b.bytes : a.first < b.first;
}

bool LivesLonger(const Lifetime& a, const Lifetime& b) {
  const int64_t a_time = a.last - a.first;
  const int64_t b_time = b.last - b.first;
  return a_time != b_time ? a_time > b_time : IsLarger(a, b);
}

// Walks through time; calls `start` and `end` with the lifetimes' indices.
template <typename Start, typename End>
void Sweep(absl::Span<const Lifetime> lifetimes, Start start, End end) {
  const std::vector<int32_t> ends = SortedBy(lifetimes, EndsBefore);
  size_t next_end = 0;
  for (int32_t i : SortedBy(lifetimes, StartsBefore)) {
    while (next_end < ends.size() &&
           lifetimes[ends[next_end]].last < lifetimes[i].first) {
      end(ends[next_end++]);
    }
    start(i);
  }
}

int64_t LiveSetBytes(absl::Span<const Lifetime> lifetimes) {
  int64_t live = 0;
  int64_t most = 0;
  Sweep(
      lifetimes,
      [&](int32_t i) {
        most = std::max(most, live += AlignUp(lifetimes[i].bytes));
      },
      [&](int32_t i) { live -= AlignUp(lifetimes[i].bytes); });
  return most;
}

ArenaPlan PlanInTime(absl::Span<const Lifetime> lifetimes) {
  ArenaPlan plan{.offsets = std::vector<int64_t>(lifetimes.size(), 0)};
  FreeList free_list;
  Sweep(
      lifetimes,
      [&](int32_t i) {
        plan.offsets[i] = free_list.Take(AlignUp(lifetimes[i].bytes));
      },
      [&](int32_t i) {
        free_list.Give(plan.offsets[i], AlignUp(lifetimes[i].bytes));
      });
  plan.arena_bytes = free_list.end();
  return plan;
}

// The lowest offset at which `bytes` fit between `busy` ranges, sorted here.
int64_t LowestFit(std::vector<std::pair<int64_t, int64_t>>& busy,
                  int64_t bytes) {
  std::sort(busy.begin(), busy.end());
  int64_t offset = 0;
  for (const auto& [begin, end] : busy) {
    if (begin - offset >= bytes) break;
    offset = std::max(offset, end);
  }
  return offset;
}

// Places one lifetime after the other as low as it fits.
ArenaPlan PlanInOrder(absl::Span<const Lifetime> lifetimes,
                      absl::Span<const int32_t> order) {
  ArenaPlan plan{.offsets = std::vector<int64_t>(lifetimes.size(), 0)};
  std::vector<int32_t> placed;
  std::vector<std::pair<int64_t, int64_t>> busy;
  for (int32_t i : order) {
    busy.clear();
    for (int32_t j : placed) {
      if (lifetimes[j].first <= lifetimes[i].last &&
          lifetimes[i].first <= lifetimes[j].last) {
        busy.emplace_back(plan.offsets[j],
                          plan.offsets[j] + AlignUp(lifetimes[j].bytes));
      }
    }
    const int64_t bytes = AlignUp(lifetimes[i].bytes);
    plan.offsets[i] = LowestFit(busy, bytes);
    plan.arena_bytes = std::max(plan.arena_bytes, plan.offsets[i] + bytes);
    placed.push_back(i);
  }
  return plan;
}

// Placing in an order compares all pairs; beyond this many it takes too long.
constexpr size_t kMaxLifetimesInOrder = 20000;
// Pairs that may be compared in the search for a better order.
constexpr size_t kMaxPairs = 20'000'000;
constexpr size_t kMaxTries = 64;
// The search for an order of the largest alone: so many, so often shuffled, and
// so many of the orders found are tried with all the others behind.
constexpr size_t kLargest = 24;
constexpr int kShuffles = 3000;
constexpr size_t kBestOrders = 3;
// What is this close to the live set is good enough.
constexpr double kGoodEnough = 1.01;

// Tries orders: what sticks out at the top is placed earlier the next time.
class OrderSearch {
 public:
  OrderSearch(absl::Span<const Lifetime> lifetimes, int64_t live_set_bytes,
              ArenaPlan start)
      : lifetimes_(lifetimes),
        wanted_(static_cast<int64_t>(kGoodEnough *
                                     static_cast<double>(live_set_bytes))),
        best_(std::move(start)) {}

  ArenaPlan Run() {
    const size_t pairs = lifetimes_.size() * lifetimes_.size();
    const size_t tries = std::clamp<size_t>(
        kMaxPairs / std::max<size_t>(pairs, 1), 1, kMaxTries);
    size_t share = (tries + 1) / 2;  // Of the first order; then the others.
    for (const auto before : {IsLarger, LivesLonger}) {
      std::vector<int32_t> order = SortedBy(lifetimes_, before);
      for (size_t i = 0; i < share && best_.arena_bytes > wanted_; ++i) {
        Try(order);
      }
      share = tries - share;
    }
    if (best_.arena_bytes > wanted_) TryLargestFirst();
    return std::move(best_);
  }

 private:
  void Try(std::vector<int32_t>& order) {
    ArenaPlan plan = PlanInOrder(lifetimes_, order);
    std::stable_partition(order.begin(), order.end(), [&](int32_t i) {
      return plan.offsets[i] + lifetimes_[i].bytes > wanted_;
    });
    if (plan.arena_bytes < best_.arena_bytes) best_ = std::move(plan);
  }

  // Where a few large ones decide, few pairs have to be compared: changes their
  // order at random and keeps what isn't worse. What ends at one time (the
  // parts of a join) counts as one.
  void TryLargestFirst() {
    std::vector<Group> groups = Groups();
    const size_t count = std::min(kLargest, groups.size());
    std::vector<Lifetime> merged;
    for (size_t i = 0; i < count; ++i) merged.push_back(groups[i].merged);
    std::vector<int32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::minstd_rand random;  // The same numbers each time.
    std::multimap<int64_t, std::vector<int32_t>> found;
    int64_t bytes = PlanInOrder(merged, order).arena_bytes;
    for (int i = 0; i < kShuffles; ++i) {
      std::vector<int32_t> changed = order;
      const auto from = static_cast<int64_t>(random() % count);
      const auto to = static_cast<int64_t>(random() % count);
      const int32_t moved = changed[from];
      changed.erase(changed.begin() + from);
      changed.insert(changed.begin() + to, moved);
      const int64_t now = PlanInOrder(merged, changed).arena_bytes;
      if (now > bytes) continue;
      if (now < bytes) found.emplace(now, changed);
      bytes = now;
      order = std::move(changed);
    }
    found.emplace(bytes, order);
    size_t tries = kBestOrders;
    for (auto& [size, best] : found) {
      if (tries-- == 0 || best_.arena_bytes <= wanted_) break;
      // The rest follows in its own order.
      best.resize(groups.size());
      std::iota(best.begin() + static_cast<int64_t>(count), best.end(),
                static_cast<int32_t>(count));
      std::vector<int32_t> all;
      for (int32_t i : best) {
        all.insert(all.end(), groups[i].members.begin(),
                   groups[i].members.end());
      }
      ArenaPlan plan = PlanInOrder(lifetimes_, all);
      if (plan.arena_bytes < best_.arena_bytes) best_ = std::move(plan);
    }
  }

  struct Group {
    Lifetime merged;
    std::vector<int32_t> members;
  };

  // Lifetimes by their end, the largest groups first.
  std::vector<Group> Groups() const {
    std::map<int32_t, Group> by_end;
    for (int32_t i : SortedBy(lifetimes_, IsLarger)) {
      const Lifetime& lifetime = lifetimes_[i];
      Group& group = by_end[static_cast<int32_t>(lifetime.last)];
      if (group.members.empty()) {
        group.merged = lifetime;
        group.merged.bytes = 0;
      }
      group.merged.first = std::min(group.merged.first, lifetime.first);
      group.merged.bytes += AlignUp(lifetime.bytes);
      group.members.push_back(i);
    }
    std::vector<Group> groups;
    for (auto& [last, group] : by_end) groups.push_back(std::move(group));
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Group& a, const Group& b) {
                       return IsLarger(a.merged, b.merged);
                     });
    return groups;
  }

  const absl::Span<const Lifetime> lifetimes_;
  const int64_t wanted_;
  ArenaPlan best_;
};

}  // namespace

ArenaPlan PlanArena(absl::Span<const Lifetime> lifetimes) {
  const int64_t live_set_bytes = LiveSetBytes(lifetimes);
  ArenaPlan plan = PlanInTime(lifetimes);
  if (plan.arena_bytes > live_set_bytes &&
      lifetimes.size() <= kMaxLifetimesInOrder) {
    plan = OrderSearch(lifetimes, live_set_bytes, std::move(plan)).Run();
  }
  plan.live_set_bytes = live_set_bytes;
  return plan;
}

}  // namespace mica
