#include "analysis/memory/arena.h"

#include <random>
#include <vector>

#include "framework/tensor/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

TEST(ArenaTest, GivesDeadBytesToLaterLifetimes) {
  const ArenaPlan plan = PlanArena({{.first = 0, .last = 1, .bytes = 100},
                                    {.first = 1, .last = 2, .bytes = 100},
                                    {.first = 2, .last = 3, .bytes = 100}});
  EXPECT_EQ(plan.arena_bytes, 2 * 128);
  EXPECT_EQ(plan.live_set_bytes, 2 * 128);
}

TEST(ArenaTest, NeedsNothingForNothing) {
  EXPECT_EQ(PlanArena({}).arena_bytes, 0);
}

// A block of a DenseNet: what each layer adds lives to the block's end, and
// each layer reads a copy of all that came before.
TEST(ArenaTest, PacksWhatStaysUnderWhatGoes) {
  std::vector<Lifetime> lifetimes;
  for (int32_t block = 0; block < 3; ++block) {
    constexpr int32_t kLayers = 24;
    const int64_t growth = int64_t{32} * 1024 >> block;
    const int32_t begin = block * kLayers * 3;
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      const int32_t step = begin + layer * 3;
      const int64_t width = growth * (layer + 2);
      lifetimes.push_back({.first = step, .last = step + 1, .bytes = width});
      lifetimes.push_back(
          {.first = step + 1, .last = step + 2, .bytes = 4 * growth});
      lifetimes.push_back(
          {.first = step + 2, .last = begin + kLayers * 3, .bytes = growth});
    }
  }
  const ArenaPlan plan = PlanArena(lifetimes);
  EXPECT_LE(static_cast<double>(plan.arena_bytes),
            1.03 * static_cast<double>(plan.live_set_bytes));
}

TEST(ArenaTest, NeverGivesOneByteToTwoLiveValues) {
  for (int seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Lifetime> lifetimes(200);
    for (Lifetime& lifetime : lifetimes) {
      lifetime.first = static_cast<int32_t>(random() % 300);
      lifetime.last = lifetime.first + static_cast<int32_t>(random() % 20);
      lifetime.bytes = 1 + random() % 5000;
    }
    const ArenaPlan plan = PlanArena(lifetimes);
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % kBufferAlignment, 0);
      EXPECT_LE(plan.offsets[i] + lifetimes[i].bytes, plan.arena_bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool meet_in_time = lifetimes[i].first <= lifetimes[j].last &&
                                  lifetimes[j].first <= lifetimes[i].last;
        const bool meet_in_bytes =
            plan.offsets[i] < plan.offsets[j] + lifetimes[j].bytes &&
            plan.offsets[j] < plan.offsets[i] + lifetimes[i].bytes;
        EXPECT_FALSE(meet_in_time && meet_in_bytes) << i << " and " << j;
      }
    }
    EXPECT_GE(plan.arena_bytes, plan.live_set_bytes);
  }
}

TEST(ArenaTest, NeedsLittleMoreThanTheLargestLiveSet) {
  int64_t arena_bytes = 0;
  int64_t live_set_bytes = 0;
  for (int seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    // A residual over every block, and in each block values of few sizes.
    std::vector<Lifetime> lifetimes;
    for (int32_t block = 0; block < 12; ++block) {
      const int32_t begin = block * 10;
      lifetimes.push_back({.first = begin, .last = begin + 10, .bytes = 768});
      for (int32_t step = 0; step < 10; ++step) {
        const auto length = static_cast<int32_t>(1 + random() % 4);
        const int64_t bytes = 768 * static_cast<int64_t>(1 + random() % 4);
        lifetimes.push_back({.first = begin + step,
                             .last = begin + step + length,
                             .bytes = bytes});
      }
    }
    const ArenaPlan plan = PlanArena(lifetimes);
    arena_bytes += plan.arena_bytes;
    live_set_bytes += plan.live_set_bytes;
  }
  EXPECT_LE(static_cast<double>(arena_bytes),
            1.03 * static_cast<double>(live_set_bytes));
}

}  // namespace
}  // namespace mica
