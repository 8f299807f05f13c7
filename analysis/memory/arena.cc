#include "analysis/memory/arena.h"

#include <algorithm>
#include <utility>

#include "analysis/memory/exact_packing.h"
#include "analysis/memory/greedy_packing.h"
#include "analysis/memory/packing.h"

namespace mica {
namespace {

// What is this close to the live set is good enough.
constexpr int64_t kGoodEnoughPercent = 101;
// Lists of overlaps are quadratic where most is alive at once, and are made up
// to so many.
constexpr int64_t kMaxOverlaps = 4'000'000;
// If the exact search for enough doesn't end well, so many for something
// between it and the best so far.
constexpr int kBisections = 4;

class ArenaPlanner {
 public:
  ArenaPlanner(const Packing& packing, const ArenaOptions& options)
      : packing_(packing),
        enough_(std::max(packing.live_set_bytes(), options.enough_bytes)),
        max_search_(options.max_search) {
    if (options.enough_bytes == 0) {
      enough_ = packing.live_set_bytes() / 100 * kGoodEnoughPercent +
                packing.live_set_bytes() % 100;
    }
  }

  Stack Plan() {
    best_ = PackInTime(packing_);
    if (IsGood()) return std::move(best_);
    Keep(PackInTime(packing_.Reversed()));
    if (IsGood() ||
        packing_.num_overlaps() > std::min(max_search_, kMaxOverlaps)) {
      return std::move(best_);
    }
    const BlockLists overlaps = BlockLists::Overlaps(packing_);
    best_ = PackByOrders(packing_, overlaps, enough_, max_search_,
                         std::move(best_));
    if (!IsGood()) Search(overlaps);
    return std::move(best_);
  }

 private:
  bool IsGood() const { return best_.bytes <= enough_; }

  void Keep(Stack stack) {
    if (stack.bytes < best_.bytes) best_ = std::move(stack);
  }

  void Search(const BlockLists& overlaps) {
    // Placing each of n looks at those that are left.
    const int64_t blocks = packing_.num_blocks();
    if (blocks * blocks / 2 > max_search_ / 2) return;
    int64_t low = enough_;
    int64_t work = max_search_;
    for (int i = 0; i <= kBisections && low < best_.bytes && work > 0; ++i) {
      const int64_t capacity = i == 0 ? low : low + (best_.bytes - low) / 2;
      // Half of what is left, that there be some for the next.
      ExactResult result =
          PackWithin(packing_, overlaps, capacity, (work + 1) / 2);
      work -= result.work;
      if (result.outcome == SearchOutcome::kFits) {
        Keep(std::move(result.stack));
      } else {
        low = capacity + 1;
      }
    }
  }

  const Packing& packing_;
  int64_t enough_;
  const int64_t max_search_;
  Stack best_;
};

}  // namespace

ArenaPlan PlanArena(absl::Span<const Lifetime> lifetimes,
                    const ArenaOptions& options) {
  const Packing packing(lifetimes, options.alignment);
  Stack stack = ArenaPlanner(packing, options).Plan();
  ArenaPlan plan{.arena_bytes = stack.bytes,
                 .live_set_bytes = packing.live_set_bytes()};
  if (stack.offsets.size() == lifetimes.size()) {
    plan.offsets = std::move(stack.offsets);  // In the lifetimes' order.
    return plan;
  }
  plan.offsets.resize(lifetimes.size());
  for (int i = 0; i < packing.num_blocks(); ++i) {
    plan.offsets[packing.blocks()[i].lifetime] = stack.offsets[i];
  }
  return plan;
}

}  // namespace mica
