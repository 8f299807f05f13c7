#include "tools/pipeline_bench.h"

#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;

GenerateOptions Small() {
  return {.kind = "transformer_step",
          .layers = 4,
          .hidden = 8,
          .heads = 2,
          .seq = 4};
}

TEST(PipelineBenchTest, FindsTheGradientsOfAStep) {
  GenerateOptions one = Small();
  one.layers = 1;
  MICA_ASSERT_OK_AND_ASSIGN(const Program step, Generate(one, AllOps()));
  const CutOptions cut = CutOptionsOf(step);
  EXPECT_EQ(cut.loss, step.value(step.outputs()[0]).name);
  ASSERT_EQ(cut.gradients.size(), step.variables().size());
  for (const GradientOf& gradient : cut.gradients) {
    EXPECT_NE(step.FindValue(gradient.value), kNoValue) << gradient.variable;
  }
}

TEST(PipelineBenchTest, PlansAStageAndAllStages) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto json,
                            RunPipelineBench({.generate = Small(),
                                              .schedule = "1f1b",
                                              .num_devices = 2,
                                              .num_micro_batches = 3,
                                              .repeats = 1}));
  EXPECT_EQ(json["stages"], 2);
  EXPECT_EQ(json["layers_of_stage"], 2);
  EXPECT_EQ(json["jobs"], 2 * 3 * 2 + 2);
  EXPECT_EQ(json["job_classes"], 2 * 3);
  EXPECT_GT(json["ratio"], 0.0);
}

TEST(PipelineBenchTest, RefusesWhatIsNoPipeline) {
  EXPECT_THAT(
      RunPipelineBench({.generate = {.kind = "chain"}, .schedule = "1f1b"})
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("wants --generate=transformer_step")));
  EXPECT_THAT(
      RunPipelineBench({.generate = Small(), .schedule = "x.schedule"})
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("x.schedule")));
  EXPECT_THAT(RunPipelineBench(
                  {.generate = Small(), .schedule = "1f1b", .num_devices = 0})
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("want 1 to 1024")));
}

}  // namespace
}  // namespace mica
