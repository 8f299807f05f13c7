#include "analysis/memory/exact_packing.h"

#include <algorithm>
#include <random>
#include <vector>

#include "analysis/memory/test_lifetimes.h"
#include "framework/base/test_matchers.h"

namespace mica {
namespace {

ExactResult Pack(const Packing& packing, int64_t capacity,
                 int64_t max_work = 10'000'000) {
  return PackWithin(packing, BlockLists::Overlaps(packing), capacity, max_work);
}

// The same by another's reckoning: lifetimes have the order of the blocks, as
// all have bytes.
void ExpectValid(const std::vector<Lifetime>& lifetimes,
                 const ExactResult& result, int64_t capacity) {
  ASSERT_EQ(result.outcome, SearchOutcome::kFits);
  EXPECT_LE(result.stack.bytes, capacity);
  MICA_EXPECT_OK(
      CheckOffsets(lifetimes, result.stack.offsets, result.stack.bytes, 1));
}

// Tries all offsets of all.
bool FitsSomehow(const std::vector<Lifetime>& lifetimes, int64_t capacity,
                 std::vector<int64_t>& offsets) {
  const size_t i = offsets.size();
  if (i == lifetimes.size()) return true;
  for (int64_t at = 0; at + lifetimes[i].bytes <= capacity; ++at) {
    bool is_free = true;
    for (size_t j = 0; j < i && is_free; ++j) {
      is_free = lifetimes[i].first > lifetimes[j].last ||
                lifetimes[j].first > lifetimes[i].last ||
                at >= offsets[j] + lifetimes[j].bytes ||
                offsets[j] >= at + lifetimes[i].bytes;
    }
    if (!is_free) continue;
    offsets.push_back(at);
    if (FitsSomehow(lifetimes, capacity, offsets)) return true;
    offsets.pop_back();
  }
  return false;
}

// Lifetimes of several steps, and at each step one that takes what is left of
// `bytes`.
std::vector<Lifetime> FilledUp(int count, int32_t steps, int64_t bytes,
                               std::mt19937& random) {
  std::vector<Lifetime> lifetimes;
  std::vector<int64_t> left(steps, bytes);
  for (int i = 0; i < count; ++i) {
    const auto first = static_cast<int32_t>(random() % (steps - 1));
    const auto last = std::min<int32_t>(
        steps - 1, first + 1 + static_cast<int32_t>(random() % 3));
    const int64_t size = 1 + random() % 3;
    const bool fits = *std::min_element(left.begin() + first,
                                        left.begin() + last + 1) >= size;
    if (!fits) continue;
    lifetimes.push_back({.first = first, .last = last, .bytes = size});
    for (int32_t step = first; step <= last; ++step) left[step] -= size;
  }
  for (int32_t step = 0; step < steps; ++step) {
    if (left[step] == 0) continue;
    lifetimes.push_back({.first = step, .last = step, .bytes = left[step]});
  }
  return lifetimes;
}

TEST(ExactPackingTest, FindsTheLeastAndProvesThatLessIsImpossible) {
  int above_live_set = 0;
  for (int seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<Lifetime> lifetimes =
        FilledUp(16, 10, 5 + seed % 3, random);
    const Packing packing(lifetimes, 1);
    int64_t capacity = packing.live_set_bytes();
    EXPECT_EQ(Pack(packing, capacity - 1).outcome, SearchOutcome::kImpossible);
    std::vector<int64_t> offsets;
    while (!FitsSomehow(lifetimes, capacity, offsets)) {
      EXPECT_EQ(Pack(packing, capacity).outcome, SearchOutcome::kImpossible);
      ++capacity;
      ++above_live_set;
    }
    ExpectValid(lifetimes, Pack(packing, capacity), capacity);
  }
  EXPECT_GT(above_live_set, 20);
}

TEST(ExactPackingTest, PutsACutRectangleTogetherAgain) {
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int count = 10 + 3 * seed;
    constexpr int64_t kBytes = int64_t{64} * 1000;
    const std::vector<Lifetime> lifetimes =
        CutRectangle(count, 60, kBytes, 64, random);
    const Packing packing(lifetimes, 1);
    EXPECT_EQ(packing.live_set_bytes(), kBytes);
    ExpectValid(lifetimes, Pack(packing, kBytes, 100'000'000), kBytes);
  }
}

TEST(ExactPackingTest, StopsWhenOutOfWork) {
  std::mt19937 random(1);
  const std::vector<Lifetime> lifetimes =
      CutRectangle(200, 100, 1'000'000, 1, random);
  const Packing packing(lifetimes, 1);
  const ExactResult result = Pack(packing, 1'000'000, 5'000);
  EXPECT_EQ(result.outcome, SearchOutcome::kStopped);
  EXPECT_LE(result.work, 5'000 + 200);
}

TEST(ExactPackingTest, GivesTheSameEachTime) {
  std::mt19937 random(3);
  const Packing packing(CutRectangle(60, 60, 64'000, 64, random), 1);
  const ExactResult first = Pack(packing, 64'000);
  const ExactResult second = Pack(packing, 64'000);
  EXPECT_EQ(first.outcome, second.outcome);
  EXPECT_EQ(first.work, second.work);
  EXPECT_EQ(first.stack.offsets, second.stack.offsets);
}

TEST(ExactPackingTest, LeavesSizesBeyondItsNumbersAlone) {
  const int64_t huge = int64_t{1} << 40;
  const Packing packing({{.first = 0, .last = 1, .bytes = huge},
                         {.first = 1, .last = 2, .bytes = huge + 1}},
                        1);
  EXPECT_EQ(Pack(packing, 2 * huge + 1).outcome, SearchOutcome::kStopped);
  EXPECT_EQ(Pack(packing, 2 * huge).outcome, SearchOutcome::kImpossible);
  EXPECT_EQ(Pack(Packing({}, 1), 0).outcome, SearchOutcome::kFits);
}

}  // namespace
}  // namespace mica
