#include "analysis/fuse/expansions.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Delayed(absl::string_view text) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  EXPECT_THAT(program, IsOk());
  if (!program.ok()) return "";
  absl::StatusOr<Program> delayed = DelayExpansions(*program, AllOps());
  EXPECT_THAT(delayed, IsOk());
  return delayed.ok() ? ToText(*delayed) : "";
}

TEST(ExpansionsTest, AMeansGradientIsOneNumber) {
  const std::string text = Delayed(R"(program @f(%dy: f32[], %x: f32[6,4]) {
  %e = aten.expand(%dy, [6, 4]) : f32[6,4]{0,0}
  %d = aten.div.Scalar(%e, 24) : f32[6,4]
  %n = aten.neg(%d) : f32[6,4]
  %y = aten.mul.Tensor(%x, %n) : f32[6,4]
  return %y
}
)");
  EXPECT_THAT(text, HasSubstr("aten.div.Scalar(%dy, 24) : f32[]\n"));
  EXPECT_THAT(text, HasSubstr(") : f32[]\n  %4 = aten.mul.Tensor(%x, "));
  EXPECT_THAT(text, Not(HasSubstr("expand")));
}

TEST(ExpansionsTest, AResultAndWhatViewsReadHasAllDims) {
  constexpr absl::string_view kText =
      R"(program @f(%dy: f32[]) {
  %e = aten.expand(%dy, [6, 4]) : f32[6,4]{0,0}
  %d = aten.div.Scalar(%e, 24) : f32[6,4]
  %n = aten.neg(%e) : f32[6,4]
  %v = aten.view(%n, [24]) : f32[24]
  %y = aten.exp(%v) : f32[24]
  return %d, %y
}
)";
  EXPECT_EQ(Delayed(kText), ToText(*ParseProgram(kText, AllOps())));
}

TEST(ExpansionsTest, AnotherDTypesPromotionStays) {
  constexpr absl::string_view kText =
      R"(program @f(%dy: f64[], %x: f32[6,4]) {
  %e = aten.expand(%dy, [6, 4]) : f64[6,4]{0,0}
  %y = aten.mul.Tensor(%x, %e) : f64[6,4]
  return %y
}
)";
  EXPECT_EQ(Delayed(kText), ToText(*ParseProgram(kText, AllOps())));
}

}  // namespace
}  // namespace mica
