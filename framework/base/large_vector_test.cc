#include "framework/base/large_vector.h"

#include <cstdint>
#include <numeric>
#include <utility>

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

}  // namespace
}  // namespace mica
