#include "framework/base/large_vector.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "framework/base/trim_large.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

TEST(LargeVectorTest, GrowsFromSmallToLargeMemory) {
  constexpr int64_t kCount = 4 * kLargeBytes / sizeof(int64_t);
  LargeVector<int64_t> numbers;
  for (int64_t i = 0; i < kCount; ++i) numbers.push_back(i);
  const LargeVector<int64_t> copy = numbers;
  LargeVector<int64_t> moved = std::move(numbers);
  EXPECT_EQ(moved, copy);
  moved.resize(3);
  moved.shrink_to_fit();
  EXPECT_EQ(moved, (LargeVector<int64_t>{0, 1, 2}));
  EXPECT_EQ(std::accumulate(copy.begin(), copy.end(), int64_t{0}),
            kCount * (kCount - 1) / 2);
}

// Tables of many sizes that come and go on several threads keep what they hold.
TEST(LargeVectorTest, NoTwoTablesShareMemory) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([thread] {
      std::minstd_rand random(thread + 1);
      std::vector<LargeVector<int64_t>> tables(6);
      for (int round = 0; round < 200; ++round) {
        const size_t which = random() % tables.size();
        LargeVector<int64_t>& table = tables[which];
        const auto mark = static_cast<int64_t>(which * kThreads + thread);
        ASSERT_TRUE(std::all_of(table.begin(), table.end(),
                                [&](int64_t entry) { return entry == mark; }));
        table = LargeVector<int64_t>();
        if (round % 64 == 63) TrimLarge();
        const size_t most = round % 20 == 0 ? 64 : 8;
        table.assign(1 + random() % (most * kLargeBytes / sizeof(int64_t)),
                     mark);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(LargeVectorTest, ManyMoreThanAreKeptComeAndGo) {
  constexpr size_t kCount = 128 << 20;
  for (int round = 0; round < 3; ++round) {
    std::vector<LargeVector<char>> tables(8);
    for (LargeVector<char>& table : tables) table.reserve(kCount);
    for (LargeVector<char>& table : tables) table.push_back('x');
    for (LargeVector<char>& table : tables) EXPECT_EQ(table.front(), 'x');
  }
}

}  // namespace
}  // namespace mica
