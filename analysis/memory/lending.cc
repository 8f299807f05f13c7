#include "analysis/memory/lending.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "analysis/memory/packing.h"
#include "framework/base/large_vector.h"
#include "framework/tensor/tensor.h"

namespace mica {
namespace {

// Each round takes about this part of the most that is alive out of the arena.
constexpr int64_t kPartOfRound = 64;
constexpr int kMaxRounds = 128;

// Where a round looks: it must not go over all steps, or over all lifetimes,
// again.
constexpr int32_t kBlock = 512;

// How many bytes are alive at each step.
class LiveBytes {
 public:
  explicit LiveBytes(absl::Span<const Lifetime> lifetimes) {
    int32_t num_steps = 0;
    for (const Lifetime& lifetime : lifetimes) {
      num_steps = std::max(num_steps, lifetime.last + 1);
    }
    bytes_.resize(num_steps + 1);
    for (const Lifetime& lifetime : lifetimes) {
      bytes_[lifetime.first] += AlignUp(lifetime.bytes);
      bytes_[lifetime.last + 1] -= AlignUp(lifetime.bytes);
    }
    std::partial_sum(bytes_.begin(), bytes_.end(), bytes_.begin());
    blocks_.resize(num_steps / kBlock + 1);
    for (size_t i = 0; i < blocks_.size(); ++i) FindMost(i);
  }

  void Remove(const Lifetime& lifetime) {
    const int64_t bytes = AlignUp(lifetime.bytes);
    for (int32_t at = lifetime.first; at <= lifetime.last;) {
      const int32_t begin = at / kBlock * kBlock;
      const int32_t end = std::min(begin + kBlock, lifetime.last + 1);
      StepBlock& block = blocks_[at / kBlock];
      if (at == begin && end == begin + kBlock) {
        block.removed += bytes;
        block.most -= bytes;
      } else {
        for (int32_t step = at; step < end; ++step) bytes_[step] -= bytes;
        FindMost(at / kBlock);
      }
      at = end;
    }
  }

  // The first step at which most is alive, and how much.
  std::pair<int32_t, int64_t> FindPeak() const {
    const auto block = std::max_element(
        blocks_.begin(), blocks_.end(),
        [](const StepBlock& a, const StepBlock& b) { return a.most < b.most; });
    const auto first = bytes_.begin() + (block - blocks_.begin()) * kBlock;
    const auto step =
        std::find(first, bytes_.end(), block->most + block->removed);
    return {static_cast<int32_t>(step - bytes_.begin()), block->most};
  }

 private:
  // Steps [kBlock i, kBlock (i + 1)).
  struct StepBlock {
    int64_t most = 0;
    int64_t removed = 0;  // From each of its steps.
  };

  void FindMost(size_t i) {
    const auto begin = bytes_.begin() + i * kBlock;
    const auto end = begin + std::min<int64_t>(kBlock, bytes_.end() - begin);
    blocks_[i].most = *std::max_element(begin, end) - blocks_[i].removed;
  }

  LargeVector<int64_t> bytes_;  // By step, before what blocks have removed.
  std::vector<StepBlock> blocks_;
};

// Which lifetimes a step is in.
class AliveAt {
 public:
  explicit AliveAt(absl::Span<const Lifetime> lifetimes)
      : lifetimes_(lifetimes), order_(lifetimes.size()) {
    // How many begin before each step: where those that begin there go.
    std::vector<int32_t> next;
    for (const Lifetime& lifetime : lifetimes_) {
      const auto after = static_cast<size_t>(lifetime.first) + 1;
      if (next.size() <= after) next.resize(after + 1);
      ++next[after];
    }
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (size_t i = 0; i < order_.size(); ++i) {
      order_[next[lifetimes_[i].first]++] = static_cast<int32_t>(i);
    }
    last_.resize(order_.size() / kBlock + 1, -1);
    for (size_t i = 0; i < order_.size(); ++i) {
      int32_t& last = last_[i / kBlock];
      last = std::max(last, lifetimes_[order_[i]].last);
    }
  }

  std::vector<int32_t> Find(int32_t step) const {
    std::vector<int32_t> alive;
    for (size_t block = 0; block < last_.size(); ++block) {
      const size_t begin = block * kBlock;
      if (begin >= order_.size() || lifetimes_[order_[begin]].first > step) {
        break;
      }
      if (last_[block] < step) continue;
      const size_t end = std::min(begin + kBlock, order_.size());
      for (size_t i = begin; i < end; ++i) {
        const Lifetime& lifetime = lifetimes_[order_[i]];
        if (lifetime.first <= step && step <= lifetime.last) {
          alive.push_back(order_[i]);
        }
      }
    }
    return alive;
  }

 private:
  const absl::Span<const Lifetime> lifetimes_;
  std::vector<int32_t> order_;  // By their first step.
  std::vector<int32_t> last_;   // The latest last step of each block of these.
};

class LendingSearch {
 public:
  LendingSearch(absl::Span<const Lifetime> lifetimes,
                absl::Span<const Lender> lenders, int64_t enough,
                LiveBytes live)
      : lifetimes_(lifetimes),
        lenders_(lenders),
        enough_(enough),
        live_(std::move(live)),
        alive_at_(lifetimes),
        loans_(lifetimes.size()),
        borrowers_(lenders.size()),
        by_first_write_(lenders.size()) {
    std::iota(by_first_write_.begin(), by_first_write_.end(), 0);
    std::stable_sort(by_first_write_.begin(), by_first_write_.end(),
                     [&](int32_t a, int32_t b) {
                       return lenders_[a].first_write < lenders_[b].first_write;
                     });
  }

  std::vector<Loan> Run() {
    for (int i = 0; i < kMaxRounds && LowerPeak(); ++i) continue;
    return std::move(loans_);
  }

 private:
  // False if nothing that is alive at the peak can be lent memory.
  bool LowerPeak() {
    const auto [step, live] = live_.FindPeak();
    if (live <= enough_) return false;
    std::vector<int32_t> alive = alive_at_.Find(step);
    std::sort(alive.begin(), alive.end(), [&](int32_t a, int32_t b) {
      const int64_t a_bytes = lifetimes_[a].bytes;
      const int64_t b_bytes = lifetimes_[b].bytes;
      return a_bytes != b_bytes ? a_bytes > b_bytes : a < b;
    });
    int64_t lent = 0;
    for (int32_t i : alive) {
      if (lent > live / kPartOfRound) break;
      if (loans_[i].lender >= 0 || !Borrow(i)) continue;
      live_.Remove(lifetimes_[i]);
      lent += AlignUp(lifetimes_[i].bytes);
    }
    return lent > 0;
  }

  // From the lender whose time is up first, so that the others stay free for
  // what lives longer.
  bool Borrow(int32_t borrower) {
    const Lifetime& lifetime = lifetimes_[borrower];
    auto it =
        std::upper_bound(by_first_write_.begin(), by_first_write_.end(),
                         lifetime.last, [&](int32_t step, int32_t lender) {
                           return step < lenders_[lender].first_write;
                         });
    for (; it != by_first_write_.end(); ++it) {
      if (lenders_[*it].bytes < lifetime.bytes) continue;
      const int64_t offset = LowestOffset(*it, lifetime);
      if (offset + lifetime.bytes > lenders_[*it].bytes) continue;
      loans_[borrower] = {.lender = *it, .offset = offset};
      borrowers_[*it].push_back(borrower);
      return true;
    }
    return false;
  }

  int64_t LowestOffset(int32_t lender, const Lifetime& lifetime) const {
    std::vector<ByteRange> busy;
    for (int32_t other : borrowers_[lender]) {
      const Lifetime& o = lifetimes_[other];
      if (o.first > lifetime.last || lifetime.first > o.last) continue;
      const int64_t begin = loans_[other].offset;
      busy.emplace_back(begin, begin + AlignUp(o.bytes));
    }
    return LowestFit(absl::MakeSpan(busy), lifetime.bytes);
  }

  const absl::Span<const Lifetime> lifetimes_;
  const absl::Span<const Lender> lenders_;
  const int64_t enough_;
  LiveBytes live_;
  const AliveAt alive_at_;
  std::vector<Loan> loans_;
  std::vector<std::vector<int32_t>> borrowers_;  // By lender.
  std::vector<int32_t> by_first_write_;          // Lenders.
};

}  // namespace

std::vector<Loan> LendMemory(absl::Span<const Lifetime> lifetimes,
                             absl::Span<const Lender> lenders, int64_t enough) {
  int64_t room = 0, smallest = std::numeric_limits<int64_t>::max();
  for (const Lender& lender : lenders) room = std::max(room, lender.bytes);
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.bytes > 0) smallest = std::min(smallest, lifetime.bytes);
  }
  if (room < smallest) return {};
  LiveBytes live(lifetimes);
  if (live.FindPeak().second <= enough) return {};
  return LendingSearch(lifetimes, lenders, enough, std::move(live)).Run();
}

}  // namespace mica
