#include "analysis/memory/lending.h"

#include <algorithm>
#include <random>
#include <vector>

#include "framework/tensor/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LendingTest, LendsUntilTheFirstWrite) {
  const std::vector<Lifetime> lifetimes = {
      {.first = 0, .last = 2, .bytes = 1000},
      {.first = 1, .last = 3, .bytes = 1000}};
  EXPECT_THAT(LendMemory(lifetimes, {{.bytes = 1000, .first_write = 3}}),
              ElementsAre(Loan{.lender = 0}, Loan{}));
}

TEST(LendingTest, LendsOneLenderToManyAtOnceAndInTurn) {
  const std::vector<Lifetime> lifetimes = {
      {.first = 0, .last = 1, .bytes = 64},
      {.first = 1, .last = 2, .bytes = 64},
      {.first = 2, .last = 3, .bytes = 64}};
  EXPECT_THAT(LendMemory(lifetimes, {{.bytes = 128, .first_write = 9}}),
              ElementsAre(Loan{.lender = 0}, Loan{.lender = 0, .offset = 64},
                          Loan{.lender = 0}));
}

TEST(LendingTest, LeavesWhatIsSmallEnoughInTheArena) {
  const std::vector<Lifetime> lifetimes = {
      {.first = 0, .last = 1, .bytes = 100}};
  EXPECT_THAT(LendMemory(lifetimes, {{.bytes = 100, .first_write = 2}}, 128),
              IsEmpty());
  EXPECT_THAT(LendMemory(lifetimes, {}), IsEmpty());
}

// A training step: activations die in the backward pass, in whose course the
// gradients, as large as they, are written.
TEST(LendingTest, PutsActivationsWhereGradientsWillBe) {
  constexpr int32_t kLayers = 12;
  constexpr int64_t kBytes = 1 << 16;
  std::vector<Lifetime> lifetimes;
  std::vector<Lender> lenders;
  for (int32_t layer = 0; layer < kLayers; ++layer) {
    const int32_t backward = 2 * kLayers - layer;
    lifetimes.push_back({.first = layer, .last = backward, .bytes = kBytes});
    lenders.push_back({.bytes = kBytes, .first_write = backward});
  }
  const std::vector<Loan> loans = LendMemory(lifetimes, lenders);
  int64_t in_arena = 0;
  for (const Loan& loan : loans) in_arena += loan.lender < 0;
  EXPECT_EQ(in_arena, 1);
}

TEST(LendingTest, NeverGivesOneByteToTwo) {
  for (int seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Lifetime> lifetimes(200);
    for (Lifetime& lifetime : lifetimes) {
      lifetime.first = static_cast<int32_t>(random() % 300);
      lifetime.last = lifetime.first + static_cast<int32_t>(random() % 40);
      lifetime.bytes = static_cast<int64_t>(random() % 5000);
    }
    std::vector<Lender> lenders(30);
    for (Lender& lender : lenders) {
      lender.bytes = static_cast<int64_t>(random() % 20000);
      lender.first_write = static_cast<int32_t>(random() % 340);
    }
    const std::vector<Loan> loans = LendMemory(lifetimes, lenders);
    EXPECT_GT(std::count_if(loans.begin(), loans.end(),
                            [](const Loan& loan) { return loan.lender >= 0; }),
              0);
    for (size_t i = 0; i < loans.size(); ++i) {
      if (loans[i].lender < 0) continue;
      const Lender& lender = lenders[loans[i].lender];
      EXPECT_LT(lifetimes[i].last, lender.first_write);
      EXPECT_LE(loans[i].offset + lifetimes[i].bytes, lender.bytes);
      EXPECT_EQ(loans[i].offset % kBufferAlignment, 0);
      for (size_t j = 0; j < i; ++j) {
        if (loans[j].lender != loans[i].lender ||
            lifetimes[j].last < lifetimes[i].first ||
            lifetimes[i].last < lifetimes[j].first) {
          continue;
        }
        EXPECT_TRUE(loans[i].offset + lifetimes[i].bytes <= loans[j].offset ||
                    loans[j].offset + lifetimes[j].bytes <= loans[i].offset);
      }
    }
  }
}

}  // namespace
}  // namespace mica
