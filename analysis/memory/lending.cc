#include "analysis/memory/lending.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "analysis/memory/packing.h"
#include "framework/tensor/tensor.h"

namespace mica {
namespace {

// Each round takes about this part of the most that is alive out of the arena.
constexpr int64_t kPartOfRound = 64;
constexpr int kMaxRounds = 128;

class LendingSearch {
 public:
  LendingSearch(absl::Span<const Lifetime> lifetimes,
                absl::Span<const Lender> lenders, int64_t enough)
      : lifetimes_(lifetimes),
        lenders_(lenders),
        enough_(enough),
        loans_(lifetimes.size()),
        borrowers_(lenders.size()),
        by_first_write_(lenders.size()) {
    std::iota(by_first_write_.begin(), by_first_write_.end(), 0);
    std::stable_sort(by_first_write_.begin(), by_first_write_.end(),
                     [&](int32_t a, int32_t b) {
                       return lenders_[a].first_write < lenders_[b].first_write;
                     });
    for (const Lifetime& lifetime : lifetimes) {
      num_steps_ = std::max(num_steps_, lifetime.last + 1);
    }
  }

  std::vector<Loan> Run() {
    for (int i = 0; i < kMaxRounds && LowerPeak(); ++i) continue;
    return std::move(loans_);
  }

 private:
  // The step at which the arena holds most, and how much.
  std::pair<int32_t, int64_t> FindPeak() const {
    std::vector<int64_t> change(num_steps_ + 1, 0);
    for (size_t i = 0; i < lifetimes_.size(); ++i) {
      if (loans_[i].lender >= 0) continue;
      change[lifetimes_[i].first] += AlignUp(lifetimes_[i].bytes);
      change[lifetimes_[i].last + 1] -= AlignUp(lifetimes_[i].bytes);
    }
    std::pair<int32_t, int64_t> peak = {0, 0};
    int64_t live = 0;
    for (int32_t step = 0; step < num_steps_; ++step) {
      live += change[step];
      if (live > peak.second) peak = {step, live};
    }
    return peak;
  }

  // False if nothing that is alive at the peak can be lent memory.
  bool LowerPeak() {
    const auto [step, live] = FindPeak();
    if (live <= enough_) return false;
    std::vector<int32_t> alive;
    for (size_t i = 0; i < lifetimes_.size(); ++i) {
      if (loans_[i].lender < 0 && lifetimes_[i].first <= step &&
          step <= lifetimes_[i].last) {
        alive.push_back(static_cast<int32_t>(i));
      }
    }
    std::stable_sort(alive.begin(), alive.end(), [&](int32_t a, int32_t b) {
      return lifetimes_[a].bytes > lifetimes_[b].bytes;
    });
    int64_t lent = 0;
    for (int32_t i : alive) {
      if (lent > live / kPartOfRound) break;
      if (Borrow(i)) lent += AlignUp(lifetimes_[i].bytes);
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
  std::vector<Loan> loans_;
  std::vector<std::vector<int32_t>> borrowers_;  // By lender.
  std::vector<int32_t> by_first_write_;          // Lenders.
  int32_t num_steps_ = 0;
};

}  // namespace

std::vector<Loan> LendMemory(absl::Span<const Lifetime> lifetimes,
                             absl::Span<const Lender> lenders, int64_t enough) {
  return LendingSearch(lifetimes, lenders, enough).Run();
}

}  // namespace mica
