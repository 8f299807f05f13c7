#include "analysis/schedule/draw.h"

#include <string>
#include <vector>

#include "analysis/schedule/generate.h"
#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mica {
namespace {

using testing::HasSubstr;

struct Drawn {
  JobGraph graph;
  Timeline timeline;
};

Drawn Make(PipelineKind kind, int devices, int micro_batches) {
  const PipelineOptions options = {
      .kind = kind, .num_devices = devices, .num_micro_batches = micro_batches};
  const auto schedule = MakePipeline(options);
  MICA_EXPECT_OK(schedule);
  auto graph = JobGraph::Build(*schedule);
  MICA_EXPECT_OK(graph);
  const auto timeline =
      Simulate(*graph, {.stages = std::vector<StageCost>(NumStages(options))});
  MICA_EXPECT_OK(timeline);
  return {*std::move(graph), *timeline};
}

TEST(DrawTest, TableShowsATimeInEachColumn) {
  const Drawn drawn = Make(PipelineKind::k1F1B, 2, 2);
  EXPECT_EQ(ToTable(drawn.graph, drawn.timeline),
            "device 0 | F0 F1 .  .  B0 B0 .  B1 B1\n"
            "device 1 | .  F0 B0 B0 F1 B1 B1\n");
}

TEST(DrawTest, TableNamesStagesWhereDevicesHaveSeveral) {
  const Drawn drawn = Make(PipelineKind::kZeroBubbleV, 1, 1);
  EXPECT_EQ(ToTable(drawn.graph, drawn.timeline),
            "device 0 | F0:0 F1:0 I1:0 I0:0 W1:0 W0:0\n");
}

TEST(DrawTest, TableOfJobsWithoutTimesIsTheirOrder) {
  Drawn drawn = Make(PipelineKind::k1F1B, 1, 1);
  drawn.timeline =
      MakeTimeline(drawn.graph, std::vector<JobSpan>(drawn.graph.num_jobs()));
  EXPECT_EQ(ToTable(drawn.graph, drawn.timeline), "device 0 | F0 B0 U0\n");
}

TEST(DrawTest, PictureHasABoxForEachJobThatTakesTime) {
  const Drawn drawn = Make(PipelineKind::kInterleaved, 2, 4);
  const std::string svg = ToSvg(drawn.graph, drawn.timeline, "a<b");
  EXPECT_THAT(svg, HasSubstr("a&lt;b: makespan 27, bubble 11.1 %"));
  int boxes = 0;
  for (size_t at = 0; (at = svg.find("<title>", at)) != std::string::npos;) {
    ++at;
    ++boxes;
  }
  EXPECT_EQ(boxes, 32 + 3);  // The legend has three.
  EXPECT_THAT(svg, HasSubstr("<title>backward(3,3): "));
}

TEST(DrawTest, TraceHasJobsAndWhatTheySend) {
  const Drawn drawn = Make(PipelineKind::kGpipe, 2, 3);
  const auto trace =
      nlohmann::json::parse(ToChromeTrace(drawn.graph, drawn.timeline, 10));
  int jobs = 0;
  int sends = 0;
  for (const auto& event : trace["traceEvents"]) {
    jobs += event["ph"] == "X" ? 1 : 0;
    sends += event["ph"] == "s" ? 1 : 0;
  }
  EXPECT_EQ(jobs, 2 * (3 + 3 + 1));
  EXPECT_EQ(sends, 3 + 3);
}

}  // namespace
}  // namespace mica
