#include "analysis/sizes/added_loops.h"

#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"

namespace mica {

void AddLoops(std::vector<SizeFacts::Loop> loops, SizeFacts& facts) {
  if (loops.empty()) return;
  std::vector<std::pair<SizeFacts::Loop, int32_t>> all;
  for (size_t i = 0; i < facts.loops.size(); ++i) {
    all.emplace_back(std::move(facts.loops[i]), static_cast<int32_t>(i));
  }
  for (SizeFacts::Loop& loop : loops) all.emplace_back(std::move(loop), -1);
  absl::c_stable_sort(all, [](const auto& a, const auto& b) {
    return a.first.calls.front() < b.first.calls.front();
  });
  std::vector<int32_t> places(facts.loops.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].second >= 0) places[all[i].second] = static_cast<int32_t>(i);
  }
  facts.loops.clear();
  for (auto& [loop, old] : all) {
    if (loop.like >= 0) loop.like = places[loop.like];
    facts.loops.push_back(std::move(loop));
  }
  for (SizeFacts::Number& number : facts.numbers) {
    if (number.loop >= 0) number.loop = places[number.loop];
  }
}

}  // namespace mica
