#include "analysis/schedule/job_graph.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "analysis/schedule/simulate.h"
#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Two stages on two devices, one micro-batch but where said.
absl::StatusOr<JobGraph> Build(const std::string& first,
                               const std::string& second,
                               int micro_batches = 1) {
  const auto schedule = ParseSchedule(absl::StrCat(
      "schedule @s(micro_batches=", micro_batches, ", stages=[0,1]) { device {",
      first, "} device {", second, "} }"));
  if (!schedule.ok()) return schedule.status();
  return JobGraph::Build(*schedule);
}

TEST(JobGraphTest, ConnectsWhatReadsWithWhatMakes) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const JobGraph graph,
      Build("forward(0,0) backward(0,0) update(0)",
            "forward(1,0) backward_input(1,0) backward_weight(1,0) update(1)"));
  EXPECT_THAT(graph.inputs(0), ElementsAre());
  EXPECT_THAT(graph.inputs(1), ElementsAre(0, 4));
  EXPECT_THAT(graph.inputs(2), ElementsAre(1));
  EXPECT_THAT(graph.inputs(3), ElementsAre(0));
  EXPECT_THAT(graph.inputs(4), ElementsAre(3));
  EXPECT_THAT(graph.inputs(5), ElementsAre(3, 4));
  EXPECT_THAT(graph.inputs(6), ElementsAre(5));
  EXPECT_THAT(graph.order(), ElementsAre(0, 3, 4, 5, 6, 1, 2));
}

TEST(JobGraphTest, UpdatesWaitForReductionsOfAllStages) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const JobGraph graph,
      Build("forward(0,0) backward(0,0) reduce(0) update(0)",
            "forward(1,0) backward(1,0) reduce(1) update(1)"));
  EXPECT_THAT(graph.inputs(2), ElementsAre(1));
  EXPECT_THAT(graph.inputs(3), ElementsAre(2, 6));
  EXPECT_THAT(graph.inputs(6), ElementsAre(5));
  EXPECT_THAT(graph.inputs(7), ElementsAre(2, 6));
  EXPECT_EQ(graph.job(2).ToString(), "reduce(0)");
  EXPECT_THAT(Build("forward(0,0) backward(0,0) update(0) reduce(0)",
                    "forward(1,0) backward(1,0) reduce(1) update(1)"),
              StatusIs(kInvalid, HasSubstr("update(0) waits for reduce(0)")));
  EXPECT_THAT(Build("forward(0,0) backward(0,0) reduce(0) update(0)",
                    "forward(1,0) backward(1,0) update(1)"),
              StatusIs(kInvalid, HasSubstr("reduce(1) is missing")));
  EXPECT_THAT(Build("forward(0,0) backward(0,0) reduce(0)",
                    "forward(1,0) backward(1,0) reduce(1)"),
              StatusIs(kInvalid, HasSubstr("update(0) is missing")));
}

TEST(JobGraphTest, TakesForwardPassesAlone) {
  MICA_EXPECT_OK(Build("forward(0,0)", "forward(1,0)"));
}

TEST(JobGraphTest, NamesTheJobThatIsMissing) {
  EXPECT_THAT(Build("forward(0,0)", ""),
              StatusIs(kInvalid, HasSubstr("forward(1,0) is missing")));
  EXPECT_THAT(Build("forward(0,0) backward(0,0)", "forward(1,0)"),
              StatusIs(kInvalid, HasSubstr("backward(1,0) is missing")));
  EXPECT_THAT(
      Build("forward(0,0) backward_input(0,0)", "forward(1,0) backward(1,0)"),
      StatusIs(kInvalid, HasSubstr("backward_weight(0,0) is missing")));
  EXPECT_THAT(Build("forward(0,0) backward(0,0) update(0)",
                    "forward(1,0) backward(1,0)"),
              StatusIs(kInvalid, HasSubstr("update(1) is missing")));
  EXPECT_THAT(Build("forward(0,0) forward(0,1)", "forward(1,1)", 2),
              StatusIs(kInvalid, HasSubstr("forward(1,0) is missing")));
}

TEST(JobGraphTest, NamesTheJobThatIsTooMany) {
  EXPECT_THAT(Build("forward(0,0) forward(0,0)", "forward(1,0)"),
              StatusIs(kInvalid, HasSubstr("forward(0,0) occurs twice")));
  EXPECT_THAT(Build("forward(0,0) backward(0,0)",
                    "forward(1,0) backward(1,0) backward_weight(1,0)"),
              StatusIs(kInvalid, AllOf(HasSubstr("both backward(1,0)"),
                                       HasSubstr("backward_weight(1,0)"))));
}

TEST(JobGraphTest, RefusesWhatThereIsNot) {
  EXPECT_THAT(Build("forward(2,0)", ""),
              StatusIs(kInvalid, HasSubstr("there are 2 stages")));
  EXPECT_THAT(Build("forward(0,1)", ""),
              StatusIs(kInvalid, HasSubstr("there are 1 micro-batches")));
  EXPECT_THAT(Build("forward(1,0)", ""),
              StatusIs(kInvalid, HasSubstr("stage 1 is on device 1")));
  EXPECT_THAT(JobGraph::Build({.name = "s",
                               .num_micro_batches = 1,
                               .device_of_stage = {3},
                               .devices = {{}}}),
              StatusIs(kInvalid, HasSubstr("device 3 of 1")));
  EXPECT_THAT(JobGraph::Build({}), StatusIs(kInvalid, HasSubstr("0 and 0")));
}

TEST(JobGraphTest, TellsADeadlockAsACycle) {
  EXPECT_THAT(
      Build("forward(0,0) backward(0,0) forward(0,1) backward(0,1)",
            "forward(1,1) forward(1,0) backward(1,0) backward(1,1)", 2),
      StatusIs(kInvalid,
               HasSubstr("deadlock: device 0: backward(0,0) waits for "
                         "backward(1,0), which device 1 runs after "
                         "forward(1,1); device 1: forward(1,1) waits for "
                         "forward(0,1), which device 0 runs after "
                         "backward(0,0)")));
}

TEST(JobGraphTest, TellsADeadlockOfOneDevice) {
  EXPECT_THAT(
      Build("backward(0,0) forward(0,0)", "forward(1,0) backward(1,0)"),
      StatusIs(kInvalid, AllOf(HasSubstr("deadlock: device 0: backward(0,0) "
                                         "waits for forward(0,0)"),
                               Not(HasSubstr("device 1:")))));
}

TEST(SimulateTest, StartsJobsWhenTheirInputsHaveCome) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const JobGraph graph,
      Build("forward(0,0) backward(0,0)", "forward(1,0) backward(1,0)"));
  const ScheduleCosts costs = {
      .stages = {{.forward = 1}, {.forward = 4, .backward_input = 2}},
      .send = 0.5};
  MICA_ASSERT_OK_AND_ASSIGN(const Timeline timeline, Simulate(graph, costs));
  EXPECT_EQ(timeline.spans[2].start, 1.5);
  EXPECT_EQ(timeline.spans[2].end, 5.5);
  EXPECT_EQ(timeline.spans[3].end, 8.5);
  EXPECT_EQ(timeline.spans[1].start, 9);
  EXPECT_EQ(timeline.makespan, 11);
  EXPECT_THAT(timeline.busy, ElementsAre(3, 7));
  EXPECT_DOUBLE_EQ(timeline.bubble, 1 - 10.0 / 22);
}

TEST(SimulateTest, RefusesCostsThatAreNone) {
  MICA_ASSERT_OK_AND_ASSIGN(const JobGraph graph,
                            Build("forward(0,0)", "forward(1,0)"));
  EXPECT_THAT(Simulate(graph, {.stages = {{}}}),
              StatusIs(kInvalid, HasSubstr("2 stages, got 1")));
  EXPECT_THAT(Simulate(graph, {.stages = {{}, {.forward = -1}}}),
              StatusIs(kInvalid, HasSubstr("stage 1, forward")));
  EXPECT_THAT(Simulate(graph, {.stages = {{}, {}}, .send = 0.0 / 0.0}),
              StatusIs(kInvalid, HasSubstr("sending")));
}

}  // namespace
}  // namespace mica
