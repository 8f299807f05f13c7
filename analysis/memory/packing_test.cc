#include "analysis/memory/packing.h"

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "analysis/memory/test_lifetimes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::ElementsAre;

TEST(PackingTest, StartsASectionWhereSomethingStartsAfterAnEnd) {
  const Packing packing({{.first = 0, .last = 9, .bytes = 1},
                         {.first = 2, .last = 3, .bytes = 65},
                         {.first = 5, .last = 5, .bytes = 2},
                         {.first = 7, .last = 9, .bytes = 0}},
                        64);
  ASSERT_EQ(packing.num_blocks(), 3);
  EXPECT_EQ(packing.num_sections(), 2);
  EXPECT_THAT(packing.live_bytes(), ElementsAre(192, 128));
  EXPECT_EQ(packing.live_set_bytes(), 192);
  EXPECT_EQ(packing.num_overlaps(), 2);
  EXPECT_EQ(packing.blocks()[0].begin, 0);
  EXPECT_EQ(packing.blocks()[0].end, 2);
  EXPECT_EQ(packing.blocks()[2].begin, 1);
  EXPECT_EQ(packing.blocks()[2].steps(), 1);
}

TEST(PackingTest, IsEmptyWithoutBytes) {
  const Packing packing({{.first = 3, .last = 4, .bytes = 0}}, 64);
  EXPECT_EQ(packing.num_blocks(), 0);
  EXPECT_EQ(packing.num_sections(), 0);
  EXPECT_EQ(packing.live_set_bytes(), 0);
}

using Pairs = std::set<std::pair<int32_t, int32_t>>;

Pairs SharedSteps(const std::vector<Lifetime>& lifetimes) {
  Pairs pairs;
  for (int32_t i = 0; i < static_cast<int32_t>(lifetimes.size()); ++i) {
    for (int32_t j = 0; j < static_cast<int32_t>(lifetimes.size()); ++j) {
      if (i != j && lifetimes[i].first <= lifetimes[j].last &&
          lifetimes[j].first <= lifetimes[i].last) {
        pairs.emplace(i, j);
      }
    }
  }
  return pairs;
}

Pairs Listed(const Packing& packing) {
  Pairs pairs;
  const BlockLists overlaps = BlockLists::Overlaps(packing);
  for (int32_t i = 0; i < packing.num_blocks(); ++i) {
    for (int32_t j : overlaps[i]) EXPECT_TRUE(pairs.emplace(i, j).second);
  }
  return pairs;
}

TEST(PackingTest, OverlapsAreThePairsThatShareAStep) {
  for (int seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    // Steps both dense and sparse.
    const int32_t steps = seed % 2 == 0 ? 40 : 1'000'000;
    const std::vector<Lifetime> lifetimes =
        RandomLifetimes(30, steps, 1 + steps / 8, 100, random);
    const Packing packing(lifetimes, 1);
    const Pairs wanted = SharedSteps(lifetimes);
    EXPECT_EQ(packing.num_overlaps() * 2, static_cast<int64_t>(wanted.size()));
    EXPECT_EQ(Listed(packing), wanted);
    EXPECT_EQ(Listed(packing.Reversed()), wanted);
    int64_t live = 0;
    for (const Lifetime& at : lifetimes) {
      int64_t bytes = 0;
      for (const Lifetime& other : lifetimes) {
        if (other.first <= at.first && at.first <= other.last) {
          bytes += other.bytes;
        }
      }
      live = std::max(live, bytes);
    }
    EXPECT_EQ(packing.live_set_bytes(), live);
    EXPECT_EQ(packing.Reversed().live_set_bytes(), live);
  }
}

TEST(PackingTest, TakesAnySteps) {
  const int32_t least = std::numeric_limits<int32_t>::min();
  const int32_t most = std::numeric_limits<int32_t>::max();
  const Packing packing({{.first = least, .last = most, .bytes = 1},
                         {.first = most, .last = most, .bytes = 1},
                         {.first = least, .last = least, .bytes = 1}},
                        1);
  EXPECT_EQ(packing.num_sections(), 2);
  EXPECT_EQ(packing.live_set_bytes(), 2);
}

}  // namespace
}  // namespace mica
