#include "analysis/lower/raising_ops.h"

#include "analysis/passes/dead_ops.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

TEST(RaisingOpsTest, NumbersAreThoseThatNothingNeeds) {
  MICA_ASSERT_OK_AND_ASSIGN(Program program, ParseProgram(R"(
program @f(%x: f32[4], %n: f64) {
  %a = mica.scalar_div(1, %n) : f64
  %b = mica.scalar_add(%a, 1) : f64
  %c = mica.scalar_sqrt(%n) : f64
  %d = aten.mul.Scalar(%x, %c) : f32[4]
  %e = mica.scalar_log(%n) : f64
  %f = aten.mul.Scalar(%x, %e) : f32[4]
  %g = mica.scalar_div(2, %n) : f64
  %h = mica.scalar_exp(%g) : f64
  return %d
}
)",
                                                          AllOps()));
  EXPECT_THAT(UnusedThatMayRaise(program),
              testing::UnorderedElementsAre(program.FindValue("a"),
                                            program.FindValue("e"),
                                            program.FindValue("h")));
}

TEST(RaisingOpsTest, TensorOpsAreKept) {
  MICA_ASSERT_OK_AND_ASSIGN(Program program, ParseProgram(R"(
program @f(%x: f32[4,2], %i: i64[3], %k: i64[3]) {
  %a = aten.index_select(%x, 0, %i) : f32[3,2]
  %b = aten.neg(%a) : f32[3,2]
  %c = aten.index_select(%x, 0, %k) : f32[3,2]
  %d = aten.remainder.Tensor(%i, %k) : i64[3]
  %e = aten.remainder.Tensor(%x, %x) : f32[4,2]
  return %c
}
)",
                                                          AllOps()));
  const std::vector<ValueId> unused = UnusedThatMayRaise(program);
  EXPECT_THAT(unused, testing::UnorderedElementsAre(program.FindValue("a"),
                                                    program.FindValue("d")));
  MICA_ASSERT_OK_AND_ASSIGN(
      const Program kept,
      WithKept(program, program.outputs(), unused, AllOps()));
  MICA_ASSERT_OK_AND_ASSIGN(const Program left,
                            WithOutputs(kept, kept.outputs(), AllOps()));
  EXPECT_EQ(ToText(left), R"(program @f(%x: f32[4,2], %i: i64[3], %k: i64[3]) {
  %a = aten.index_select(%x, 0, %i) : f32[3,2]
  mica.keep(%a)
  %c = aten.index_select(%x, 0, %k) : f32[3,2]
  %d = aten.remainder.Tensor(%i, %k) : i64[3]
  mica.keep(%d)
  return %c
}
)");
}

}  // namespace
}  // namespace mica
