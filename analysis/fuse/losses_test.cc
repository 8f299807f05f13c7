#include "analysis/fuse/losses.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string SpeltOut(absl::string_view text) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  EXPECT_THAT(program, IsOk());
  if (!program.ok()) return "";
  absl::StatusOr<Program> spelt = SpellOutLosses(*program, AllOps());
  EXPECT_THAT(spelt, IsOk());
  return spelt.ok() ? ToText(*spelt) : "";
}

TEST(LossesTest, ASquaredErrorAndItsGradientAreElementwise) {
  const std::string text =
      SpeltOut(R"(program @f(%d: f32[], %x: f32[6,4], %y: f32[6,4]) {
  %l = aten.mse_loss(%x, %y, 1) : f32[]
  %g = aten.mse_loss_backward(%d, %x, %y, 2) : f32[6,4]
  return %l, %g
}
)");
  EXPECT_THAT(text, Not(HasSubstr("mse_loss")));
  EXPECT_THAT(text, HasSubstr("aten.mean("));
  EXPECT_THAT(text, HasSubstr(", 2.0) : f32[6,4]"));
}

TEST(LossesTest, ErrorsLieAsTheyDid) {
  EXPECT_THAT(SpeltOut(R"(program @f(%x: f32[6,4], %z: f32[6,4]{1,6}) {
  %n = aten.mse_loss(%z, %x, 0) : f32[6,4]{1,6}
  return %n
}
)"),
              HasSubstr("%n = aten.pow.Tensor_Scalar(%0, 2) : f32[6,4]{1,6}"));
}

TEST(LossesTest, OtherTypesStay) {
  constexpr absl::string_view kText =
      R"(program @f(%x: bf16[6,4], %y: bf16[6,4]) {
  %l = aten.mse_loss(%x, %y, 1) : bf16[]
  return %l
}
)";
  EXPECT_EQ(SpeltOut(kText), ToText(*ParseProgram(kText, AllOps())));
}

}  // namespace
}  // namespace mica
