#include "tools/train/rate.h"

#include <limits>

#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::HasSubstr;

TEST(RateTest, ConstantIsTheSameAtEachStep) {
  const RateOptions options = {.rate = 0.3};
  EXPECT_EQ(RateAt(options, 0, 10), 0.3);
  EXPECT_EQ(RateAt(options, 9, 10), 0.3);
}

TEST(RateTest, CosineGoesFromTheRateToTheFinalOne) {
  const RateOptions options = {
      .rate = 0.4, .course = "cosine", .final_rate = 0.2};
  EXPECT_DOUBLE_EQ(RateAt(options, 0, 10), 0.4);
  EXPECT_DOUBLE_EQ(RateAt(options, 5, 10), 0.3);
  EXPECT_DOUBLE_EQ(RateAt(options, 10, 10), 0.2);
  EXPECT_DOUBLE_EQ(RateAt(options, 99, 10), 0.2);
  EXPECT_GT(RateAt(options, 2, 10), RateAt(options, 3, 10));
}

TEST(RateTest, WarmsUpInAStraightLine) {
  const RateOptions options = {
      .rate = 0.4, .course = "cosine", .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(RateAt(options, 0, 10), 0.1);
  EXPECT_DOUBLE_EQ(RateAt(options, 3, 10), 0.4);
  EXPECT_DOUBLE_EQ(RateAt(options, 4, 10), 0.4);
  EXPECT_DOUBLE_EQ(RateAt(options, 7, 10), 0.2);
}

TEST(RateTest, OptionsOutOfRangeAreNamed) {
  MICA_EXPECT_OK(CheckOptions(RateOptions()));
  EXPECT_THAT(CheckOptions(RateOptions{.course = "wavy"}),
              StatusIs(kInvalid, HasSubstr("--course: wants constant or cos")));
  EXPECT_THAT(CheckOptions(RateOptions{.rate = -1}),
              StatusIs(kInvalid, HasSubstr("--rate")));
  EXPECT_THAT(CheckOptions(RateOptions{
                  .final_rate = std::numeric_limits<double>::quiet_NaN()}),
              StatusIs(kInvalid, HasSubstr("--final_rate")));
  EXPECT_THAT(CheckOptions(RateOptions{.warmup_steps = -1}),
              StatusIs(kInvalid, HasSubstr("--warmup_steps")));
}

TEST(RateTest, TextTellsCoursesApart) {
  EXPECT_EQ(RateOptions{.rate = 0.5}.ToString(10),
            RateOptions{.rate = 0.5}.ToString(20));
  const RateOptions cosine = {.rate = 0.5, .course = "cosine"};
  EXPECT_NE(cosine.ToString(10), cosine.ToString(20));
  EXPECT_NE(RateOptions{.rate = 0.5}.ToString(10), cosine.ToString(10));
}

}  // namespace
}  // namespace mica
