#include "analysis/fuse/region_verdicts.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;

TEST(RegionVerdictsTest, SayWhyOpsAreNotOneRegion) {
  const absl::StatusOr<Program> program =
      ParseProgram(R"(program @f(%x: f32[4,8], %w: f32[8,8]) {
  %a = aten.abs(%x) : f32[4,8] @ "a.py":1
  %p = aten.mm(%a, %w) : f32[4,8] @ "a.py":2
  %e = aten.exp(%a) : f32[4,8] @ "a.py":3
  %s = aten.sum.dim_IntList(%e, [1], true) : f32[4,1] @ "a.py":4
  %t = aten.sum.dim_IntList(%e, [0], true) : f32[1,8] @ "a.py":5
  %y = aten.neg(%t) : f32[1,8] @ "a.py":6
  %z = aten.stack([%y, %t]) : f32[2,1,8] @ "a.py":7
  return %p, %s, %z
}
)",
                   AllOps());
  ASSERT_THAT(program, IsOk());
  EXPECT_EQ(RegionVerdictsText(*program, {AllOps(), AllKernels()}),
            "aten.abs (a.py:1) -> aten.mm (a.py:2): no rule takes it\n"
            "aten.abs (a.py:1) -> aten.exp (a.py:3): aten.mm (a.py:2) reads "
            "the region before\n"
            "aten.exp (a.py:3) -> aten.sum.dim_IntList (a.py:5): reduces over "
            "0, not over 1\n"
            "aten.neg (a.py:6) -> aten.stack (a.py:7): no rule takes it\n"
            "aten.sum.dim_IntList (a.py:5) -> aten.stack (a.py:7): no rule "
            "takes it\n");
  EXPECT_THAT(RegionVerdictsText(*program,
                                 {AllOps(), AllKernels(), {.reduces = false}}),
              HasSubstr("aten.exp (a.py:3) -> aten.sum.dim_IntList (a.py:4): "
                        "reductions are left out (MICA_FUSE)"));
}

}  // namespace
}  // namespace mica
