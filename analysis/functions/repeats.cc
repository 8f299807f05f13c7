#include "analysis/functions/repeats.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace mica {
namespace {

constexpr int32_t kWindow = 4;       // Words.
constexpr size_t kMostPeriods = 16;  // That are tried.

// Of kWindow words, which are hashes themselves.
uint64_t HashOfWindow(const uint64_t* words) {
  uint64_t hash = 0;
  for (int32_t i = 0; i < kWindow; ++i) {
    hash = hash * 0x9E3779B97F4A7C15 + words[i];
  }
  return hash;
}

// The periods that most windows have, most first.
std::vector<int32_t> GuessPeriods(absl::Span<const uint64_t> words,
                                  int32_t shortest) {
  const auto size = static_cast<int32_t>(words.size());
  absl::flat_hash_map<uint64_t, int32_t> last;  // By window: where it began.
  absl::flat_hash_map<int32_t, int64_t> counts;
  // Most windows are as far from the last as the one before them.
  int32_t period = 0;
  int64_t count = 0;
  for (int32_t i = 0; i + kWindow <= size; ++i) {
    const auto [it, is_new] = last.try_emplace(HashOfWindow(&words[i]), i);
    if (is_new) continue;
    const int32_t distance = i - std::exchange(it->second, i);
    if (distance != period) {
      if (count > 0) counts[period] += count;
      period = distance;
      count = 0;
    }
    if (distance >= shortest) ++count;
  }
  if (count > 0) counts[period] += count;
  std::vector<std::pair<int64_t, int32_t>> order;
  for (const auto& [length, times] : counts) {
    order.emplace_back(-times, length);
  }
  std::sort(order.begin(), order.end());
  std::vector<int32_t> periods;
  for (const auto& [times, length] : order) {
    if (periods.size() == kMostPeriods) break;
    periods.push_back(length);
  }
  return periods;
}

// All runs of copies of this period. Such a run has `period` words in turn that
// are equal to those a period later, so it shows at one of the places a period
// apart: of a period that is none, most words aren't looked at.
void AddRuns(absl::Span<const uint64_t> words, int32_t period,
             std::vector<Repeat>* repeats) {
  const int32_t last = static_cast<int32_t>(words.size()) - period;
  const auto is_equal = [&](int32_t i) {
    return words[i] == words[i + period];
  };
  int32_t known = 0;  // No run begins before this that isn't added.
  for (int32_t i = period - 1; i < last; i += period) {
    if (!is_equal(i)) {
      known = i + 1;
      continue;
    }
    int32_t begin = i, end = i + 1;
    while (begin > known && is_equal(begin - 1)) --begin;
    while (end < last && is_equal(end)) ++end;
    if (end - begin >= period) {
      const int32_t count = (end - begin) / period + 1;
      repeats->push_back({begin, period, count, (end - begin) % period});
    }
    // What ends the run is no part of the next one.
    known = end + 1;
    i = end;
  }
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
