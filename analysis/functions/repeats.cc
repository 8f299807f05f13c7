#include "analysis/functions/repeats.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"

namespace mica {
namespace {

constexpr int32_t kWindow = 4;       // Words.
constexpr size_t kMostPeriods = 16;  // That are tried.

// The periods that most windows have, most first.
std::vector<int32_t> GuessPeriods(absl::Span<const uint64_t> words,
                                  int32_t shortest) {
  const auto size = static_cast<int32_t>(words.size());
  absl::flat_hash_map<uint64_t, int32_t> last;  // By window: where it began.
  absl::flat_hash_map<int32_t, int64_t> counts;
  for (int32_t i = 0; i + kWindow <= size; ++i) {
    const uint64_t window = absl::HashOf(words.subspan(i, kWindow));
    const auto [it, is_new] = last.try_emplace(window, i);
    if (is_new) continue;
    if (i - it->second >= shortest) ++counts[i - it->second];
    it->second = i;
  }
  std::vector<std::pair<int64_t, int32_t>> order;
  for (const auto& [period, count] : counts) order.emplace_back(-count, period);
  std::sort(order.begin(), order.end());
  std::vector<int32_t> periods;
  for (const auto& [count, period] : order) {
    if (periods.size() == kMostPeriods) break;
    periods.push_back(period);
  }
  return periods;
}

// All runs of copies of this period.
void AddRuns(absl::Span<const uint64_t> words, int32_t period,
             std::vector<Repeat>* repeats) {
  const auto size = static_cast<int32_t>(words.size());
  int32_t begin = 0;
  const auto end_run = [&](int32_t end) {
    const int32_t count = (end - begin) / period + 1;
    const int32_t tail = (end - begin) % period;
    if (count >= 2) repeats->push_back({begin, period, count, tail});
  };
  for (int32_t i = 0; i + period < size; ++i) {
    if (words[i] == words[i + period]) continue;
    end_run(i);
    begin = i + 1;
  }
  end_run(std::max(begin, size - period));
}

}  // namespace

std::vector<Repeat> FindRepeats(absl::Span<const uint64_t> words,
                                int32_t shortest) {
  std::vector<Repeat> all;
  for (int32_t period : GuessPeriods(words, shortest)) {
    AddRuns(words, period, &all);
  }
  // Of two periods of which one is a multiple of the other, the shorter one's
  // copies save more.
  std::sort(all.begin(), all.end(), [](const Repeat& a, const Repeat& b) {
    return std::make_pair(-a.saved(), a.begin) <
           std::make_pair(-b.saved(), b.begin);
  });
  std::vector<bool> is_taken(words.size(), false);
  std::vector<Repeat> chosen;
  for (const Repeat& repeat : all) {
    const auto first = is_taken.begin() + repeat.begin;
    const auto last = is_taken.begin() + repeat.end();
    if (std::find(first, last, true) != last) continue;
    std::fill(first, last, true);
    chosen.push_back(repeat);
  }
  return chosen;
}

}  // namespace mica
