#include "analysis/memory/arena.h"

#include <random>
#include <vector>

#include "analysis/memory/test_lifetimes.h"
#include "framework/base/test_matchers.h"
#include "framework/tensor/tensor.h"

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
    const std::vector<Lifetime> lifetimes =
        RandomLifetimes(200, 300, 20, 5000, random);
    const ArenaPlan plan = PlanArena(lifetimes, {.max_search = 200'000});
    MICA_EXPECT_OK(CheckOffsets(lifetimes, plan.offsets, plan.arena_bytes,
                                kBufferAlignment));
    EXPECT_GE(plan.arena_bytes, plan.live_set_bytes);
  }
}

TEST(ArenaTest, SearchesWhereOrdersMiss) {
  for (int seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<Lifetime> lifetimes =
        CutRectangle(40, 60, int64_t{64} * 1000, 64, random);
    const ArenaPlan plan = PlanArena(lifetimes);
    MICA_EXPECT_OK(CheckOffsets(lifetimes, plan.offsets, plan.arena_bytes,
                                kBufferAlignment));
    EXPECT_EQ(plan.live_set_bytes, 64'000);
    EXPECT_LE(plan.arena_bytes, 64'640);
  }
}

TEST(ArenaTest, AlignsAsAsked) {
  const std::vector<Lifetime> lifetimes = {{.first = 0, .last = 1, .bytes = 3},
                                           {.first = 0, .last = 1, .bytes = 0},
                                           {.first = 1, .last = 2, .bytes = 5}};
  EXPECT_EQ(PlanArena(lifetimes, {.alignment = 1}).arena_bytes, 8);
  EXPECT_EQ(PlanArena(lifetimes, {.alignment = 4}).arena_bytes, 12);
  EXPECT_EQ(PlanArena(lifetimes, {.alignment = 256}).arena_bytes, 512);
}

// All of a training step's activations are alive in its middle: more overlaps
// than can be listed.
TEST(ArenaTest, PacksManyThatAreAliveTogether) {
  constexpr int32_t kCount = 20'000;
  std::mt19937 random(5);
  std::vector<Lifetime> lifetimes;
  for (int32_t i = 0; i < kCount; ++i) {
    const int64_t bytes = 64 * static_cast<int64_t>(1 + random() % 100);
    lifetimes.push_back({.first = i, .last = 2 * kCount - i, .bytes = bytes});
    lifetimes.push_back({.first = i, .last = i + 2, .bytes = bytes});
  }
  const ArenaPlan plan = PlanArena(lifetimes);
  MICA_EXPECT_OK(CheckOffsets(lifetimes, plan.offsets, plan.arena_bytes,
                              kBufferAlignment));
  EXPECT_LE(static_cast<double>(plan.arena_bytes),
            1.01 * static_cast<double>(plan.live_set_bytes));
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
