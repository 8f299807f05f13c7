#include "analysis/schedule/value_plan.h"

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "analysis/schedule/generate.h"
#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::HasSubstr;

JobGraph MakeGraph(const PipelineOptions& options) {
  auto schedule = MakePipeline(options);
  MICA_EXPECT_OK(schedule);
  auto graph = JobGraph::Build(*schedule);
  MICA_EXPECT_OK(graph);
  return *std::move(graph);
}

constexpr JobClass kForward0 = {JobType::kForward, 0};
constexpr JobClass kForward1 = {JobType::kForward, 1};
constexpr JobClass kBackward0 = {JobType::kBackward, 0};

TEST(ValuePlanTest, ReusesBytesOfWhatAllHaveRead) {
  const JobGraph graph = MakeGraph({.num_devices = 2, .num_micro_batches = 4});
  const std::vector<ScheduleValue> values = {
      {.name = "h",
       .bytes = 100,
       .producer = kForward0,
       .readers = {kForward1, kBackward0}}};
  MICA_ASSERT_OK_AND_ASSIGN(const ValuePlan plan,
                            ValuePlan::Build(graph, values));
  EXPECT_EQ(plan.devices()[0].peak_values, 2);
  EXPECT_EQ(plan.devices()[0].peak_bytes, 200);
  EXPECT_EQ(plan.devices()[0].arena_bytes, 256);
  EXPECT_EQ(plan.devices()[1].peak_values, 0);
  EXPECT_NE(plan.offset(0, 0), plan.offset(0, 1));
  EXPECT_EQ(plan.offset(0, 0), plan.offset(0, 2));
}

// They are one block: each keeps its place in it, for all micro-batches.
TEST(ValuePlanTest, WhatTheSameJobsReadLiesTogether) {
  const JobGraph graph = MakeGraph({.num_devices = 2, .num_micro_batches = 4});
  const std::vector<JobClass> readers = {kForward1, kBackward0};
  const std::vector<ScheduleValue> values = {
      {.name = "a", .bytes = 100, .producer = kForward0, .readers = readers},
      {.name = "b", .bytes = 4, .producer = kForward0, .readers = {kForward1}},
      {.name = "c", .bytes = 200, .producer = kForward0, .readers = readers}};
  MICA_ASSERT_OK_AND_ASSIGN(const ValuePlan plan,
                            ValuePlan::Build(graph, values));
  for (int batch = 0; batch < 4; ++batch) {
    EXPECT_EQ(plan.offset(2, batch) - plan.offset(0, batch), 128);
    EXPECT_NE(plan.offset(1, batch), plan.offset(0, batch));
    EXPECT_NE(plan.offset(1, batch), plan.offset(2, batch));
  }
  EXPECT_EQ(plan.devices()[0].peak_bytes, 2 * 304);
  const auto kind = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(ValuePlan::Build(graph, {values[0],
                                       {.name = "d",
                                        .bytes = -1,
                                        .producer = kForward0,
                                        .readers = readers}}),
              StatusIs(kind, HasSubstr("value d: -1 bytes")));
}

// Nothing tells the first device that the second has read what it sent, before
// the gradient has come back.
TEST(ValuePlanTest, KeepsWhatAnotherDeviceMayStillRead) {
  const JobGraph graph = MakeGraph(
      {.kind = PipelineKind::kGpipe, .num_devices = 2, .num_micro_batches = 4});
  const std::vector<ScheduleValue> values = {
      {.name = "h", .bytes = 4, .producer = kForward0, .readers = {kForward1}}};
  MICA_ASSERT_OK_AND_ASSIGN(const ValuePlan plan,
                            ValuePlan::Build(graph, values));
  EXPECT_EQ(plan.devices()[0].peak_values, 4);
}

TEST(ValuePlanTest, NamesAValueThatCantBe) {
  const JobGraph graph = MakeGraph({.num_devices = 2, .num_micro_batches = 2});
  const auto build = [&](const ScheduleValue& value) {
    return ValuePlan::Build(graph, {value}).status();
  };
  EXPECT_THAT(build({.name = "h", .producer = {JobType::kBackwardInput, 0}}),
              StatusIs(kInvalid, HasSubstr("value h: no Job")));
  EXPECT_THAT(build({.name = "h",
                     .producer = {JobType::kUpdate, 0},
                     .readers = {{JobType::kUpdate, 1}}}),
              StatusIs(kInvalid, HasSubstr("value h: update(1) reads it, but "
                                           "doesn't wait for update(0)")));
  EXPECT_THAT(build({.name = "h", .bytes = -1, .producer = kForward0}),
              StatusIs(kInvalid, HasSubstr("-1 bytes")));
  EXPECT_THAT(
      build({.name = "g", .producer = kBackward0, .readers = {kForward1}}),
      StatusIs(kInvalid, HasSubstr("forward(1,0) reads it, but doesn't "
                                   "wait for backward(0,0)")));
  EXPECT_THAT(
      build({.name = "h",
             .producer = kForward0,
             .readers = {{JobType::kUpdate, 0}}}),
      StatusIs(kInvalid,
               HasSubstr("update(0) reads it, which is of one of them")));
}

TEST(ValuePlanTest, UpdatesReadWhatStagesReduce) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const Schedule schedule,
      ParseSchedule("schedule @s(micro_batches=1, stages=[0,1]) {"
                    "device { forward(0,0) backward(0,0) reduce(0) update(0) }"
                    "device { forward(1,0) backward(1,0) reduce(1) update(1) }"
                    "}"));
  MICA_ASSERT_OK_AND_ASSIGN(const JobGraph graph, JobGraph::Build(schedule));
  const JobClass reduce0 = {JobType::kReduce, 0};
  const JobClass update0 = {JobType::kUpdate, 0};
  const JobClass update1 = {JobType::kUpdate, 1};
  const std::vector<ScheduleValue> values = {
      {.name = "n", .bytes = 4, .producer = reduce0, .readers = {update1}},
      {.name = "m", .bytes = 4, .producer = reduce0, .readers = {update0}}};
  MICA_ASSERT_OK_AND_ASSIGN(const ValuePlan plan,
                            ValuePlan::Build(graph, values));
  EXPECT_EQ(plan.devices()[0].peak_values, 2);
  EXPECT_NE(plan.offset(0, 0), plan.offset(1, 0));
  EXPECT_THAT(ValuePlan::Build(graph, {{.name = "n",
                                        .bytes = 4,
                                        .producer = reduce0,
                                        .readers = {kForward1}}}),
              StatusIs(kInvalid, HasSubstr("forward(1) reads it, which is of "
                                           "all micro-batches")));
}

// Runs the Jobs in a random order that keeps to the Schedule; each value must
// still be there when it is read.
void RunInSomeOrder(const JobGraph& graph,
                    const std::vector<ScheduleValue>& values,
                    const ValuePlan& plan, std::mt19937& random) {
  std::vector<JobId> next;
  for (int d = 0; d < graph.num_devices(); ++d) next.push_back(graph.begin(d));
  std::vector<bool> is_done(graph.num_jobs(), false);
  std::map<std::pair<int, int64_t>, std::pair<int, int>> memory;
  for (int done = 0; done < graph.num_jobs();) {
    const int device = static_cast<int>(random() % graph.num_devices());
    const JobId id = next[device];
    if (id == graph.end(device)) continue;
    bool may_run = true;
    for (JobId input : graph.inputs(id)) may_run = may_run && is_done[input];
    if (!may_run) continue;
    const auto [type, stage, batch] = graph.job(id);
    for (int i = 0; i < static_cast<int>(values.size()); ++i) {
      const JobClass job = {type, stage};
      const int home = graph.device_of_stage()[values[i].producer.stage];
      for (const JobClass& reader : values[i].readers) {
        if (!(reader == job)) continue;
        const auto found = memory[{home, plan.offset(i, batch)}];
        ASSERT_EQ(found, std::make_pair(i, batch)) << graph.job(id).ToString();
      }
      if (values[i].producer == job) {
        memory[{home, plan.offset(i, batch)}] = {i, batch};
      }
    }
    is_done[id] = true;
    ++next[device];
    ++done;
  }
}

TEST(ValuePlanTest, NoOrderOfRunningOverwritesWhatIsRead) {
  std::mt19937 random(7);
  for (const PipelineKind kind :
       {PipelineKind::kGpipe, PipelineKind::k1F1B, PipelineKind::kInterleaved,
        PipelineKind::kZeroBubbleH1, PipelineKind::kZeroBubbleV}) {
    const PipelineOptions options = {
        .kind = kind, .num_devices = 3, .num_micro_batches = 6};
    const JobGraph graph = MakeGraph(options);
    const int stages = graph.num_stages();
    std::vector<ScheduleValue> values =
        ActivationsOf(std::vector<int64_t>(stages, 64));
    for (int stage = 0; stage + 1 < stages; ++stage) {
      values.push_back({.name = "sent",
                        .bytes = 64,
                        .producer = {JobType::kForward, stage},
                        .readers = {{JobType::kForward, stage + 1}}});
      for (JobType type : {JobType::kBackward, JobType::kBackwardInput}) {
        if (graph.Find({type, 0, 0}) < 0) continue;
        values.push_back({.name = "gradient",
                          .bytes = 64,
                          .producer = {type, stage + 1},
                          .readers = {{type, stage}}});
      }
    }
    MICA_ASSERT_OK_AND_ASSIGN(const ValuePlan plan,
                              ValuePlan::Build(graph, values));
    for (int i = 0; i < 50; ++i) RunInSomeOrder(graph, values, plan, random);
  }
}

}  // namespace
}  // namespace mica
