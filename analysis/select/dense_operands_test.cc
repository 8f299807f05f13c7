#include "analysis/select/dense_operands.h"

#include <string>

#include "analysis/plan/plan.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string TextOfPlan(absl::string_view text) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  EXPECT_THAT(program, IsOk());
  if (!program.ok()) return "";
  auto plan = Plan::Build(*program, AllOps(), AllKernels(), {});
  EXPECT_THAT(plan, IsOk());
  return plan.ok() ? (*plan)->ToText() : "";
}

TEST(DenseOperandsTest, AnExpandedGradientIsMultipliedFast) {
  const std::string plan =
      TextOfPlan(R"(program @f(%dy: f32[], %x: f32[32,64], %w: f32[48,64]) {
  %e = aten.expand(%dy, [32, 48]) : f32[32,48]{0,0}
  %t = aten.t(%w) : f32[64,48]{1,64}
  %dx = mica.linear(%e, %t, none, none, "none") : f32[32,64]
  %s = aten.t(%e) : f32[48,32]{0,0}
  %r = aten.t(%x) : f32[64,32]{1,64}
  %dw = mica.linear(%s, %r, none, none, "none") : f32[48,64]
  return %dx, %dw
}
)");
  EXPECT_THAT(plan, Not(HasSubstr("reference")));
}

TEST(DenseOperandsTest, WhatHasGapsIsCopiedBeforeTheOracleIsAsked) {
  const std::string plan = TextOfPlan(R"(program @f(%x: f32[64,32,6]) {
  %t = aten.transpose.int(%x, 0, 2) : f32[6,32,64]{1,6,192}
  %y = aten.cumsum(%t, 1) : f32[6,32,64]
  return %y
}
)");
  EXPECT_THAT(plan, HasSubstr("cpu.cumsum"));
}

TEST(DenseOperandsTest, NothingIsCopiedThatIsRowMajor) {
  EXPECT_FALSE(IsExpanded({.dims = {1, 4}, .strides = {0, 1}}));
  EXPECT_TRUE(IsExpanded({.dims = {2, 4}, .strides = {0, 1}}));
}

}  // namespace
}  // namespace mica
