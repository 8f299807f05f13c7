#include "kernels/reference/strided.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> Offsets(const Dims& dims, const Dims& strides) {
  std::vector<int64_t> offsets;
  for (Odometer at(dims, {strides}); !at.done(); at.Next()) {
    offsets.push_back(at.offset(0));
  }
  return offsets;
}

TEST(OdometerTest, CountsInRowMajorOrder) {
  EXPECT_THAT(Offsets({2, 3}, {1, 10}), ElementsAre(0, 10, 20, 1, 11, 21));
  EXPECT_THAT(Offsets({2, 2}, {0, 1}), ElementsAre(0, 1, 0, 1));
}

TEST(OdometerTest, HasOneIndexWithoutDimsAndNoneWithoutElements) {
  EXPECT_THAT(Offsets({}, {}), ElementsAre(0));
  EXPECT_THAT(Offsets({3, 0}, {1, 1}), ElementsAre());
}

TEST(LaneTest, BroadcastsByZeroStrides) {
  const Lane lane = {.dims = {3, 1}, .strides = {5, 7}};
  EXPECT_THAT(BroadcastStrides(lane, {2, 3, 4}), ElementsAre(0, 5, 0));
}

TEST(LaneTest, SplitsAnAxisOff) {
  const AxisLane split =
      SplitAxis({.dims = {2, 3, 4}, .strides = {12, 4, 1}}, 1);
  EXPECT_EQ(split.size, 3);
  EXPECT_EQ(split.stride, 4);
  EXPECT_THAT(split.outer.dims, ElementsAre(2, 4));
  EXPECT_EQ(SplitAxis({}, 0).size, 1);
}

}  // namespace
}  // namespace mica
