#include "analysis/schedule/generate.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/schedule/job_graph.h"
#include "analysis/schedule/value_plan.h"
#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::HasSubstr;

constexpr PipelineKind kKinds[] = {
    PipelineKind::kGpipe, PipelineKind::k1F1B, PipelineKind::kInterleaved,
    PipelineKind::kZeroBubbleH1, PipelineKind::kZeroBubbleV};

struct Figures {
  double makespan = 0;
  double bubble = 0;
  std::vector<int64_t> peaks;  // Live activations, by device.
  int64_t peak() const { return *std::max_element(peaks.begin(), peaks.end()); }
};

// Of Jobs that take one unit of time each; a whole backward pass takes two.
absl::StatusOr<Figures> Measure(const PipelineOptions& options) {
  MICA_ASSIGN_OR_RETURN(const Schedule schedule, MakePipeline(options));
  MICA_ASSIGN_OR_RETURN(const JobGraph graph, JobGraph::Build(schedule));
  ScheduleCosts costs = options.costs;
  if (costs.stages.empty()) costs.stages.resize(NumStages(options));
  MICA_ASSIGN_OR_RETURN(const Timeline timeline, Simulate(graph, costs));
  MICA_ASSIGN_OR_RETURN(
      const ValuePlan values,
      ValuePlan::Build(
          graph, ActivationsOf(std::vector<int64_t>(NumStages(options), 1))));
  Figures figures = {.makespan = timeline.makespan, .bubble = timeline.bubble};
  for (const DeviceMemory& memory : values.devices()) {
    figures.peaks.push_back(memory.peak_values);
  }
  return figures;
}

struct Size {
  int devices;
  int micro_batches;
};
constexpr Size kSizes[] = {{1, 1}, {2, 1}, {2, 4},  {3, 7},  {4, 2},
                           {4, 8}, {5, 5}, {4, 13}, {8, 16}, {8, 32}};

TEST(GenerateTest, GpipeIdlesWhileItFillsAndDrains) {
  for (const auto [p, m] : kSizes) {
    MICA_ASSERT_OK_AND_ASSIGN(const Figures figures,
                              Measure({.kind = PipelineKind::kGpipe,
                                       .num_devices = p,
                                       .num_micro_batches = m}));
    EXPECT_EQ(figures.makespan, 3.0 * (m + p - 1)) << p << " " << m;
    EXPECT_NEAR(figures.bubble, (p - 1.0) / (m + p - 1), 1e-12);
    for (int64_t peak : figures.peaks) EXPECT_EQ(peak, m);
  }
}

TEST(GenerateTest, OneForwardOneBackwardHoldsAsManyAsStagesAreBehind) {
  for (const auto [p, m] : kSizes) {
    MICA_ASSERT_OK_AND_ASSIGN(const Figures figures,
                              Measure({.kind = PipelineKind::k1F1B,
                                       .num_devices = p,
                                       .num_micro_batches = m}));
    EXPECT_NEAR(figures.bubble, (p - 1.0) / (m + p - 1), 1e-12);
    for (int stage = 0; stage < p; ++stage) {
      EXPECT_EQ(figures.peaks[stage], std::min(p - stage, m)) << p << " " << m;
    }
  }
}

TEST(GenerateTest, OneForwardOneBackwardAlternatesAfterItsStart) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const Schedule schedule,
      MakePipeline({.num_devices = 2, .num_micro_batches = 3}));
  EXPECT_EQ(ToText(schedule),
            R"(schedule @"1f1b"(micro_batches=3, stages=[0,1]) {
  device {
    forward(0,0)
    forward(0,1)
    backward(0,0)
    forward(0,2)
    backward(0,1)
    backward(0,2)
    update(0)
  }
  device {
    forward(1,0)
    backward(1,0)
    forward(1,1)
    backward(1,1)
    forward(1,2)
    backward(1,2)
    update(1)
  }
}
)");
}

TEST(GenerateTest, InterleavingDividesTheIdleTimeByTheChunks) {
  for (const auto [p, m] : {Size{2, 4}, {3, 6}, {4, 8}, {4, 12}, {8, 16}}) {
    for (const int v : {2, 3, 4}) {
      MICA_ASSERT_OK_AND_ASSIGN(const Figures figures,
                                Measure({.kind = PipelineKind::kInterleaved,
                                         .num_devices = p,
                                         .num_micro_batches = m,
                                         .num_chunks = v}));
      // In units of a chunk, of which a device runs v * m.
      EXPECT_EQ(figures.makespan, 3.0 * (v * m + p - 1)) << p << m << v;
      for (int device = 0; device < p; ++device) {
        EXPECT_EQ(figures.peaks[device],
                  std::min(2 * (p - device - 1) + (v - 1) * p + 1, v * m));
      }
    }
  }
}

TEST(GenerateTest, ZeroBubbleH1IdlesAThirdAtTheSameMemory) {
  for (const auto [p, m] : {Size{2, 4}, {3, 7}, {4, 8}, {5, 10}, {8, 32}}) {
    MICA_ASSERT_OK_AND_ASSIGN(const Figures figures,
                              Measure({.kind = PipelineKind::kZeroBubbleH1,
                                       .num_devices = p,
                                       .num_micro_batches = m}));
    // 1F1B's is 3m + 3(p - 1).
    EXPECT_EQ(figures.makespan, 3.0 * m + (p - 1)) << p << " " << m;
    EXPECT_LE(figures.peak(), p);
  }
}

TEST(GenerateTest, ZeroBubbleVHardlyIdlesAtTheSameMemory) {
  for (const auto [p, m] : {Size{2, 4}, {3, 7}, {4, 8}, {8, 16}, {8, 32}}) {
    MICA_ASSERT_OK_AND_ASSIGN(const Figures figures,
                              Measure({.kind = PipelineKind::kZeroBubbleV,
                                       .num_devices = p,
                                       .num_micro_batches = m}));
    // In units of half a stage. No device but the first can start at once: the
    // last one waits for p - 1 of them, the only idle time that must be.
    EXPECT_GE(figures.makespan, 6.0 * m + (p - 1));
    EXPECT_LE(figures.makespan, 6.0 * m + 1.3 * (p - 1)) << p << " " << m;
    EXPECT_LE(figures.peak(), 2 * p);
  }
}

TEST(GenerateTest, ZeroBubblesAdaptToCosts) {
  const StageCost cost = {
      .forward = 10, .backward_input = 14, .backward_weight = 7};
  PipelineOptions options = {.kind = PipelineKind::kZeroBubbleH1,
                             .num_devices = 4,
                             .num_micro_batches = 12};
  options.costs = {.stages = std::vector<StageCost>(4, cost), .send = 1};
  MICA_ASSERT_OK_AND_ASSIGN(const Figures h1, Measure(options));
  options.kind = PipelineKind::k1F1B;
  MICA_ASSERT_OK_AND_ASSIGN(const Figures plain, Measure(options));
  options.kind = PipelineKind::kZeroBubbleV;
  options.costs.stages.assign(8, cost);
  MICA_ASSERT_OK_AND_ASSIGN(const Figures v, Measure(options));
  EXPECT_LT(h1.bubble, plain.bubble);
  EXPECT_LT(v.bubble, h1.bubble);
}

TEST(GenerateTest, EverySizeEndsAndReadsBackFromText) {
  for (const PipelineKind kind : kKinds) {
    for (int p = 1; p <= 5; ++p) {
      for (int m = 1; m <= 11; ++m) {
        for (const int v : {2, 3}) {
          PipelineOptions options = {
              .kind = kind, .num_devices = p, .num_micro_batches = m};
          if (kind == PipelineKind::kInterleaved) options.num_chunks = v;
          SCOPED_TRACE(absl::StrCat(ToString(kind), " ", p, " ", m, " ", v));
          MICA_ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                                    MakePipeline(options));
          MICA_EXPECT_OK(JobGraph::Build(schedule));
          MICA_ASSERT_OK_AND_ASSIGN(const Schedule back,
                                    ParseSchedule(ToText(schedule)));
          EXPECT_EQ(back, schedule);
        }
      }
    }
  }
}

TEST(GenerateTest, KindsHaveNames) {
  for (PipelineKind kind : kKinds) {
    EXPECT_EQ(ParsePipelineKind(ToString(kind)), kind);
  }
  EXPECT_EQ(ParsePipelineKind("2f2b"), std::nullopt);
}

TEST(GenerateTest, RefusesOptionsOutOfRange) {
  EXPECT_THAT(MakePipeline({.num_devices = 0}),
              StatusIs(kInvalid, HasSubstr("devices: wants 1")));
  EXPECT_THAT(MakePipeline({.num_micro_batches = 0}),
              StatusIs(kInvalid, HasSubstr("micro-batches")));
  EXPECT_THAT(
      MakePipeline({.kind = PipelineKind::kZeroBubbleV, .num_chunks = 3}),
      StatusIs(kInvalid, HasSubstr("chunks of zbv: wants 2 to 2")));
  EXPECT_THAT(
      MakePipeline({.kind = PipelineKind::kInterleaved, .num_chunks = 1}),
      StatusIs(kInvalid, HasSubstr("chunks of interleaved")));
  EXPECT_THAT(MakePipeline({.num_devices = 1000, .num_micro_batches = 1 << 20}),
              StatusIs(kInvalid, HasSubstr("Jobs")));
  EXPECT_THAT(MakePipeline({.num_devices = 2,
                            .costs = {.stages = {{.forward = -1}, {}}}}),
              StatusIs(kInvalid, HasSubstr("a cost can't be -1")));
}

}  // namespace
}  // namespace mica
