#include "analysis/fuse/regions.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Merged(absl::string_view text) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  EXPECT_THAT(program, IsOk());
  absl::StatusOr<Program> merged =
      MergeElementwise(*program, AllOps(), AllKernels());
  EXPECT_THAT(merged, IsOk());
  const std::string merged_text = ToText(*merged);
  // A region is a Program's op like any other.
  EXPECT_THAT(ParseProgram(merged_text, AllOps()), IsOk());
  return merged_text;
}

TEST(RegionsTest, AnOptimizersStepIsOnePass) {
  const std::string text = Merged(R"(program @adam(%g: f32[8], %s: f64) {
  %p = variable "p" : f32[8]
  %m = variable "m" : f32[8]
  %v = variable "v" : f32[8]
  %m2 = aten.lerp.Scalar(%m, %g, 0.1) : f32[8]
  %v1 = aten.mul.Tensor(%v, %s) : f32[8]
  %v2 = aten.addcmul(%v1, %g, %g, value=0.5) : f32[8]
  %r = aten.sqrt(%v2) : f32[8]
  %d = aten.add.Scalar(%r, 0.125) : f32[8]
  %q = aten.addcdiv(%p, %m2, %d, value=%s) : f32[8]
  update "p" = %q
  update "m" = %m2
  update "v" = %v2
  return
}
)");
  EXPECT_THAT(text, HasSubstr("%m2, %v2, %q = mica.elementwise(["));
  EXPECT_THAT(text, Not(HasSubstr("aten.")));
}

TEST(RegionsTest, StandsBeforeTheFirstReader) {
  const std::string text = Merged(R"(program @f(%x: f32[4,4]) {
  %a = aten.neg(%x) : f32[4,4]
  %b = aten.exp(%a) : f32[4,4]
  %p = aten.mm(%b, %x) : f32[4,4]
  %c = aten.mul.Tensor(%a, %p) : f32[4,4]
  %d = aten.abs(%c) : f32[4,4]
  return %d
}
)");
  EXPECT_THAT(text, HasSubstr("neg.f32 %0; exp.f32 $0 -> $0 $1"));
  EXPECT_THAT(text, HasSubstr("mul.f32 %0 %1; abs.f32 $0 -> $1"));
}

TEST(RegionsTest, BroadcastsAndConverts) {
  const std::string text = Merged(R"(program @f(%x: f32[4,4], %b: f32[4]) {
  %t = aten.t(%x) : f32[4,4]{1,4}
  %a = aten.add.Tensor(%x, %b) : f32[4,4]
  %c = aten.mul.Tensor(%a, %t) : f32[4,4]
  %i = aten._to_copy(%c, dtype=i64) : i64[4,4]
  %j = aten.neg(%i) : i64[4,4]
  return %j
}
)");
  EXPECT_THAT(text,
              HasSubstr("mica.elementwise([%x, %t, %b], \"add.f32 %0 %2; "
                        "mul.f32 $0 %1; cast.i64 $1; neg.i64 $2 -> $3\""));
}

TEST(RegionsTest, RoundsAsEagerDoes) {
  // An op of several instructions is rounded once; a number that becomes a
  // tensor is rounded before it is compared, one that is a factor isn't.
  const std::string text = Merged(R"(program @f(%x: bf16[4]) {
  %a = aten.hardswish(%x) : bf16[4]
  %b = aten.mul.Scalar(%a, 0.1) : bf16[4]
  %c = aten.gt.Scalar(%b, 0.1) : bool[4]
  return %c
}
)");
  EXPECT_THAT(text,
              HasSubstr("add.f32 %0 3; maximum.f32 $0 0; minimum.f32 $1 6; "
                        "mul.f32 %0 $2; div.bf16 $3 6; mul.bf16 $4 "
                        "0.10000000000000001; gt.bf16 $5 0.10009765625 -> "
                        "$6"));
}

TEST(RegionsTest, LeavesOtherSizesAlone) {
  const std::string text = Merged(R"(program @f(%x: f32[4,1], %b: f32[4]) {
  %a = aten.neg(%x) : f32[4,1]
  %c = aten.add.Tensor(%a, %b) : f32[4,4]
  return %c
}
)");
  EXPECT_THAT(text, Not(HasSubstr("mica.elementwise")));
}

TEST(RegionsTest, AloneAFunctionWithoutAKernelOfItsOwnIsARegion) {
  const std::string text = Merged(R"(program @f(%x: f32[4,8], %y: bf16[4,8]) {
  %a = aten.sin(%x) : f32[4,8]
  %t = aten.t(%a) : f32[8,4]{1,8}
  %p = aten.mm(%a, %t) : f32[4,4]
  %b = aten.neg(%p) : f32[4,4]
  %c = aten.hardshrink(%y) : bf16[4,8]
  return %b, %c
}
)");
  EXPECT_THAT(text, HasSubstr("\"sin.f32 %0 -> $0\""));
  EXPECT_THAT(text, HasSubstr("%b = aten.neg(%p)"));
  EXPECT_THAT(text, HasSubstr("%c = aten.hardshrink(%y)"));
}

TEST(RegionsTest, AReductionAndWhatStandsAroundItIsOnePass) {
  const std::string text = Merged(R"(program @f(%x: f32[4,8], %w: f32[8]) {
  %q = aten.pow.Tensor_Scalar(%x, 2) : f32[4,8]
  %m = aten.mean.dim(%q, [-1], keepdim=true) : f32[4,1]
  %e = aten.add.Scalar(%m, 1e-6) : f32[4,1]
  %r = aten.rsqrt(%e) : f32[4,1]
  %n = aten.mul.Tensor(%x, %r) : f32[4,8]
  %y = aten.mul.Tensor(%n, %w) : f32[4,8]
  return %y
}
)");
  EXPECT_THAT(text,
              HasSubstr("%y = mica.reduce([%x, %w], \"square.f32 %0; mean.f32 "
                        "$0 0; add.f32 $1 9.9999999999999995e-07; rsqrt.f32 "
                        "$2; mul.f32 %0 $3; mul.f32 $4 %1 -> $5 over 1\")"));
  EXPECT_THAT(text, Not(HasSubstr("aten.")));
}

TEST(RegionsTest, WhatLacksTheReducedAxesIsAView) {
  const std::string text = Merged(R"(program @f(%x: f32[4,8]) {
  %a = aten.abs(%x) : f32[4,8]
  %s = aten.sum.dim_IntList(%a, [1]) : f32[4]
  %l = aten.log(%s) : f32[4]
  %u = aten.unsqueeze(%s, 1) : f32[4,1]
  %y = aten.div.Tensor(%x, %u) : f32[4,8]
  return %l, %y
}
)");
  EXPECT_THAT(text,
              HasSubstr("%y = mica.reduce([%x], \"abs.f32 %0; sum.f32 $0; "
                        "log.f32 $1; div.f32 %0 $1 -> $2 $3 over 1\") : "
                        "f32[4,1], f32[4,8]"));
  EXPECT_THAT(text, HasSubstr("%l = aten.view("));
}

// A bias's gradient is a sum of what the products before it read.
TEST(RegionsTest, AReductionJoinsBehindTheFirstReader) {
  const std::string text = Merged(R"(program @f(%x: f32[4,8], %w: f32[8,8]) {
  %a = aten.abs(%x) : f32[4,8]
  %t = aten.t(%a) : f32[8,4]{1,8}
  %p = aten.mm(%t, %x) : f32[8,8]
  %s = aten.sum.dim_IntList(%a, [0]) : f32[8]
  return %p, %s
}
)");
  EXPECT_THAT(text, HasSubstr("abs.f32 %0; sum.f32 $0 -> $0 $1 over 0"));
}

TEST(RegionsTest, AnOperandsColumnsBroadcastAsTheyAre) {
  const std::string text = Merged(R"(program @f(%x: f32[4,8]) {
  %m = aten.mean.dim(%x, [0]) : f32[8]
  %d = aten.sub.Tensor(%x, %m) : f32[4,8]
  return %d
}
)");
  EXPECT_THAT(text, HasSubstr("mean.f32 %0 0; sub.f32 %0 $0 -> $1 over 0"));
}

TEST(RegionsTest, OtherAxesAreAnotherRegion) {
  const std::string text = Merged(R"(program @f(%x: f32[4,8]) {
  %a = aten.abs(%x) : f32[4,8]
  %s = aten.sum.dim_IntList(%a, [1]) : f32[4]
  %l = aten.log(%s) : f32[4]
  %m = aten.mean(%l) : f32[]
  %n = aten.neg(%m) : f32[]
  return %n
}
)");
  EXPECT_THAT(text, HasSubstr("sum.f32 $0; log.f32 $1 -> $2 over 1"));
  EXPECT_THAT(text, HasSubstr("mean.f32 %0 0; neg.f32 $0 -> $1 over 0"));
}

// Dims without the reduced axis don't line up with another operand of theirs.
TEST(RegionsTest, WhatDoesNotLineUpStaysApart) {
  const std::string text = Merged(R"(program @f(%x: f32[4,4], %b: f32[4]) {
  %a = aten.abs(%x) : f32[4,4]
  %s = aten.sum.dim_IntList(%a, [1]) : f32[4]
  %t = aten.add.Tensor(%s, %b) : f32[4]
  %y = aten.div.Tensor(%a, %t) : f32[4,4]
  return %y
}
)");
  EXPECT_THAT(text, HasSubstr("abs.f32 %0; sum.f32 $0 -> $0 $1 over 1"));
  EXPECT_THAT(text, HasSubstr("%y = aten.div.Tensor(%a, %t)"));
}

}  // namespace
}  // namespace mica
