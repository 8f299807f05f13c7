#include "analysis/memory/exact_packing.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace mica {
namespace {

using Niche = SearchStyle::Niche;

// Nodes of the first search, each of which looks at most at all blocks.
constexpr int64_t kFirstNodes = 1000;
// After so many searches the next ones may take longer, by so much.
constexpr int kRound = 12;
constexpr double kMorePerRound = 1.5;
// Searches before priorities are shaken, by up to so many ranks a thousand.
constexpr int kRoundsUnshaken = 2;
constexpr int64_t kShake = 100;
// The share of older conflicts that a search leaves in the weights, and what
// its own add at most.
constexpr double kOldConflicts = 0.8;
constexpr double kNewConflicts = 5;

// The sequence of styles, the same for the same packing.
class Styles {
 public:
  explicit Styles(const Packing& packing)
      : packing_(packing), weight_(packing.num_sections(), 1.0) {
    std::vector<int64_t> most_alive;
    for (const PackedBlock& block : packing.blocks()) {
      const auto begin = packing.live_bytes().begin();
      most_alive.push_back(
          *std::max_element(begin + block.begin, begin + block.end));
    }
    bytes_ = Ranks([](const PackedBlock& block) { return block.bytes; });
    sections_ = Ranks([](const PackedBlock& block) {
      return int64_t{block.end} - block.begin;
    });
    area_ = Ranks([](const PackedBlock& block) {
      return static_cast<double>(block.bytes) *
             static_cast<double>(block.steps());
    });
    alive_ = Ranks([&](const PackedBlock& block) {
      return most_alive[&block - packing.blocks().data()];
    });
  }

  SearchStyle Next() {
    static constexpr std::array kNiches = {Niche::kFewestOptions,
                                           Niche::kLeastSlack, Niche::kLowest};
    static constexpr int kNumOrders = 4;
    const int round = count_ / kRound;
    SearchStyle style{
        .niche = kNiches[count_ / kNumOrders % kNiches.size()],
        .from_right = round % 2 == 1,
        .priority = Priority(count_ % kNumOrders, round >= kRoundsUnshaken),
        .weight = weight_};
    if (style.niche == Niche::kLowest && round > 0) {
      style.niche = Niche::kMostConflicts;
    }
    ++count_;
    return style;
  }

  // Where the last search had to turn back is where the next looks first.
  void Learn(const std::vector<int64_t>& conflicts) {
    const int64_t most = *std::max_element(conflicts.begin(), conflicts.end());
    for (size_t s = 0; s < weight_.size() && most > 0; ++s) {
      weight_[s] = kOldConflicts * weight_[s] +
                   kNewConflicts * static_cast<double>(conflicts[s]) /
                       static_cast<double>(most);
    }
  }

 private:
  using RankList = std::vector<int64_t>;

  // Of each block, how many have a smaller key.
  template <typename Key>
  RankList Ranks(Key key) const {
    const absl::Span<const PackedBlock> blocks = packing_.blocks();
    std::vector<int32_t> order(blocks.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return key(blocks[a]) < key(blocks[b]);
    });
    RankList ranks(blocks.size());
    for (size_t i = 0; i < order.size(); ++i) {
      const bool is_equal =
          i > 0 && !(key(blocks[order[i - 1]]) < key(blocks[order[i]]));
      ranks[order[i]] =
          is_equal ? ranks[order[i - 1]] : static_cast<int64_t>(i);
    }
    return ranks;
  }

  // A mixture of ranks: nearly one of them alone, or at random.
  RankList Priority(int order, bool is_shaken) {
    int64_t sections = 0;
    int64_t alive = 0;
    int64_t area = 0;
    int64_t bytes = 1;
    switch (order) {
      case 0:
        sections = 1000;
        break;
      case 1:
        alive = 1000;
        sections = 10;
        break;
      case 2:
        area = 1000;
        break;
      default:
        sections = Random(1000);
        alive = Random(2000);
        area = Random(1000);
        bytes = Random(1000);
    }
    const auto count = static_cast<int64_t>(bytes_.size());
    RankList priority(count);
    for (int64_t i = 0; i < count; ++i) {
      priority[i] = sections * sections_[i] + alive * alive_[i] +
                    area * area_[i] + bytes * bytes_[i];
      if (is_shaken) priority[i] += Random(kShake * count);
    }
    return priority;
  }

  int64_t Random(int64_t end) { return static_cast<int64_t>(random_()) % end; }

  const Packing& packing_;
  RankList bytes_;
  RankList sections_;
  RankList area_;
  RankList alive_;
  std::vector<double> weight_;
  std::minstd_rand random_;  // The same numbers each time.
  int count_ = 0;
};

}  // namespace

ExactResult PackWithin(const Packing& packing, const BlockLists& overlaps,
                       int64_t capacity, int64_t max_work) {
  ExactResult result;
  if (packing.num_blocks() == 0) {
    result.outcome = SearchOutcome::kFits;
    return result;
  }
  if (packing.live_set_bytes() > capacity) {
    result.outcome = SearchOutcome::kImpossible;
    return result;
  }
  const BlockLists sections = BlockLists::Sections(packing);
  NicheSearch search(packing, overlaps, sections, capacity);
  Styles styles(packing);
  auto share = static_cast<double>(kFirstNodes * packing.num_blocks());
  for (int i = 0; result.work < max_work; ++i) {
    if (i > 0 && i % kRound == 0) share *= kMorePerRound;
    result.outcome = search.Run(
        styles.Next(),
        std::min(static_cast<int64_t>(share), max_work - result.work));
    if (search.work() == 0) break;  // It can't search this.
    result.work += search.work();
    if (result.outcome == SearchOutcome::kFits) result.stack = search.stack();
    if (result.outcome != SearchOutcome::kStopped) break;
    styles.Learn(search.conflicts());
  }
  return result;
}

}  // namespace mica
