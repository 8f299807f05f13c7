#include "tools/slope.h"

#include "framework/base/test_matchers.h"

namespace mica {
namespace {

using testing::HasSubstr;

TEST(SlopeTest, TellsLinearFromQuadratic) {
  EXPECT_NEAR(SlopeOf({{10, 3}, {100, 30}, {1000, 300}}), 1, 1e-9);
  EXPECT_NEAR(SlopeOf({{10, 3}, {100, 300}, {1000, 30000}}), 2, 1e-9);
}

TEST(SlopeTest, PlansEachSize) {
  for (const char* kind : {"ladder", "transformer", "transformer_step"}) {
    MICA_ASSERT_OK_AND_ASSIGN(
        const SlopeResult result,
        RunSlope(
            {.generate = {.kind = kind, .hidden = 16, .heads = 2, .seq = 4},
             .streams = 2},
            10'000, 2'000));
    ASSERT_EQ(result.points.size(), 2u);
    EXPECT_NEAR(static_cast<double>(result.points[1].ops), 10'000, 200);
    // How long it took is the machine's to say.
    for (const SlopePoint& point : result.points) {
      EXPECT_GT(point.analysis_ms, 0);
    }
    EXPECT_EQ(result.slope, SlopeOf(result.points));
  }
}

TEST(SlopeTest, WantsAGenerator) {
  EXPECT_THAT(RunSlope({.generate = {.kind = ""}}, 10'000),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("wants --generate")));
  EXPECT_THAT(
      RunSlope({.generate = {.kind = "chain"}}, 5'000),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--ops=10000")));
}

}  // namespace
}  // namespace mica
