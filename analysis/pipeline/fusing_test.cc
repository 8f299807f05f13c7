#include "analysis/pipeline/fusing.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr absl::string_view kFusableNet =
    R"(program @f(%x: f32[4,8], %w: f32[8,8]) {
  %a = aten.abs(%x) : f32[4,8]
  %e = aten.exp(%a) : f32[4,8]
  %p = aten.mm(%e, %w) : f32[4,8]
  %r = aten.relu(%p) : f32[4,8]
  %n = aten.neg(%r) : f32[4,8]
  %c = aten.cos(%n) : f32[4,8]
  %s = aten.sum.dim_IntList(%c, [1]) : f32[4]
  return %s
}
)";

// What all passes leave of the program by a setting.
std::string Passed(absl::string_view setting) {
  absl::StatusOr<Fusing> fusing = FusingOf(setting, PassPipeline::All());
  EXPECT_THAT(fusing, IsOk());
  absl::StatusOr<Program> program = ParseProgram(kFusableNet, AllOps());
  EXPECT_THAT(program, IsOk());
  absl::StatusOr<Program> passed = fusing->passes.Run(
      *std::move(program), {AllOps(), AllKernels(), fusing->regions});
  EXPECT_THAT(passed, IsOk());
  return ToText(*passed);
}

TEST(FusingTest, RunsAllByDefault) {
  const std::string text = Passed("");
  EXPECT_THAT(text, HasSubstr("mica.elementwise"));
  EXPECT_THAT(text, HasSubstr("mica.linear"));
  EXPECT_THAT(text, HasSubstr("mica.reduce"));
}

TEST(FusingTest, LeavesOutAKind) {
  EXPECT_THAT(Passed("-linear"), Not(HasSubstr("mica.linear")));
  const std::string text = Passed("-reductions");
  EXPECT_THAT(text, Not(HasSubstr("mica.reduce")));
  EXPECT_THAT(text, HasSubstr("neg.f32 %0; cos.f32 $0"));
  EXPECT_THAT(Passed("-elementwise,-linear"), Not(HasSubstr("mica.")));
}

TEST(FusingTest, OffMergesNothing) {
  EXPECT_THAT(Passed("off"), Not(HasSubstr("mica.")));
}

TEST(FusingTest, MakesTheFirstRegions) {
  EXPECT_THAT(Passed("regions=0"), Not(HasSubstr("mica.elementwise")));
  const std::string text = Passed("regions=1");
  EXPECT_THAT(text, HasSubstr("abs.f32 %0; exp.f32 $0"));
  EXPECT_THAT(text, HasSubstr("aten.cos"));
  EXPECT_EQ(Passed("regions=2"), Passed(""));
}

TEST(FusingTest, NamesTheWordsThatThereAre) {
  for (absl::string_view setting :
       {"linear", "-lines", "regions=", "regions=-1", "off,on"}) {
    EXPECT_THAT(FusingOf(setting, PassPipeline::All()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("regions=NUMBER, -convolutions")))
        << setting;
  }
}

}  // namespace
}  // namespace mica
