#include "analysis/lower/fixed_values.h"

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

TEST(FixedValuesTest, AreThoseThatConstantsAloneDecide) {
  MICA_ASSERT_OK_AND_ASSIGN(Program program, ParseProgram(R"(
program @f(%x: f32[4]) {
  %w = variable "w" : f32[4]
  %a = aten.zeros([4], dtype=f32) : f32[4]
  %b = aten.add.Tensor(%a, %a) : f32[4]
  %c = aten.add.Tensor(%b, %x) : f32[4]
  %d = aten.add.Tensor(%b, %w) : f32[4]
  %e = aten.empty.memory_format([4], dtype=f32) : f32[4]
  %f = aten.add.Tensor(%e, %a) : f32[4]
  return %b, %c, %d, %f
}
)",
                                                          AllOps()));
  const std::vector<bool> fixed = FixedValues(program);
  for (const char* name : {"a", "b"}) {
    EXPECT_TRUE(fixed[program.FindValue(name)]) << name;
  }
  for (const char* name : {"x", "w", "c", "d", "e", "f"}) {
    EXPECT_FALSE(fixed[program.FindValue(name)]) << name;
  }
}

}  // namespace
}  // namespace mica
