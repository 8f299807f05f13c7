#include "analysis/lower/raising_numbers.h"

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

TEST(RaisingNumbersTest, AreThoseThatNothingNeeds) {
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

}  // namespace
}  // namespace mica
