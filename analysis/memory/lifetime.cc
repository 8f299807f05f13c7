#include "analysis/memory/lifetime.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"

namespace mica {
namespace {

std::string Describe(absl::Span<const Lifetime> lifetimes,
                     absl::Span<const int64_t> offsets, int32_t i) {
  return absl::StrCat("lifetime ", i, " (steps ", lifetimes[i].first, " to ",
                      lifetimes[i].last, ", bytes ", offsets[i], " to ",
                      offsets[i] + lifetimes[i].bytes, ")");
}

std::vector<int32_t> SortedBy(absl::Span<const Lifetime> lifetimes,
                              int32_t Lifetime::*time) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].bytes > 0) order.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return lifetimes[a].*time < lifetimes[b].*time;
  });
  return order;
}

}  // namespace

absl::Status CheckOffsets(absl::Span<const Lifetime> lifetimes,
                          absl::Span<const int64_t> offsets,
                          int64_t arena_bytes, int64_t alignment) {
  if (lifetimes.size() != offsets.size()) {
    return absl::InternalError(absl::StrCat(lifetimes.size(), " lifetimes, ",
                                            offsets.size(), " offsets"));
  }
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const bool fits = offsets[i] >= 0 && offsets[i] % alignment == 0 &&
                      offsets[i] + lifetimes[i].bytes <= arena_bytes;
    if (fits) continue;
    return absl::InternalError(absl::StrCat(
        Describe(lifetimes, offsets, static_cast<int32_t>(i)),
        ": wants a multiple of ", alignment, " within ", arena_bytes));
  }
  // What is alive, by offset: as none overlap, the two beside a new one tell.
  absl::btree_map<int64_t, int32_t> alive;
  const std::vector<int32_t> ends = SortedBy(lifetimes, &Lifetime::last);
  size_t next_end = 0;
  for (int32_t i : SortedBy(lifetimes, &Lifetime::first)) {
    while (lifetimes[ends[next_end]].last < lifetimes[i].first) {
      alive.erase(offsets[ends[next_end++]]);
    }
    const auto above = alive.lower_bound(offsets[i]);
    int32_t other = -1;
    if (above != alive.end() &&
        above->first < offsets[i] + lifetimes[i].bytes) {
      other = above->second;
    }
    if (above != alive.begin()) {
      const auto [offset, below] = *std::prev(above);
      if (offset + lifetimes[below].bytes > offsets[i]) other = below;
    }
    if (other >= 0) {
      return absl::InternalError(
          absl::StrCat(Describe(lifetimes, offsets, i), " overlaps ",
                       Describe(lifetimes, offsets, other)));
    }
    alive.emplace(offsets[i], i);
  }
  return absl::OkStatus();
}

}  // namespace mica
