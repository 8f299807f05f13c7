#include "framework/schedule/schedule.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::_;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kSchedule[] =
    R"(schedule @"two stages"(micro_batches=1, stages=[0,1]) {
  device {
    forward(0,0)
    backward(0,0)
    update(0)
  }
  device {
    forward(1,0)
    backward_input(1,0)
    backward_weight(1,0)
    update(1)
  }
}
)";

TEST(ScheduleTest, TextReadsBackToTheSameSchedule) {
  MICA_ASSERT_OK_AND_ASSIGN(const Schedule schedule, ParseSchedule(kSchedule));
  EXPECT_EQ(schedule.name, "two stages");
  EXPECT_EQ(schedule.num_stages(), 2);
  ASSERT_EQ(schedule.num_devices(), 2);
  EXPECT_EQ(schedule.devices[1][1],
            (ScheduledJob{JobType::kBackwardInput, 1, 0}));
  EXPECT_EQ(ToText(schedule), kSchedule);
}

TEST(ScheduleTest, EmptySchedulesHaveATextToo) {
  const std::string text = "schedule @none(micro_batches=0, stages=[]) {\n}\n";
  MICA_ASSERT_OK_AND_ASSIGN(const Schedule schedule, ParseSchedule(text));
  EXPECT_EQ(schedule, Schedule{.name = "none"});
  EXPECT_EQ(ToText(schedule), text);
}

TEST(ScheduleTest, TellsAnUnknownJobTypeFromTheKnownOnes) {
  EXPECT_THAT(ParseSchedule("schedule @s(micro_batches=1, stages=[0]) {\n"
                            "  device {\n    sideward(0,0)\n"),
              StatusIs(kInvalid, AllOf(HasSubstr("3:5"), HasSubstr("sideward"),
                                       HasSubstr("backward_weight"))));
}

TEST(ScheduleTest, RefusesNumbersThatAreNone) {
  const std::string head = "schedule @s(micro_batches=1, stages=[0]) {device {";
  for (const char* job : {"forward(0)", "forward(-1,0)", "forward(0,1.5)",
                          "forward(0,99999999999999999999)", "update(0,0)",
                          "forward(0,0", "forward"}) {
    EXPECT_THAT(ParseSchedule(head + job + "}}"), StatusIs(kInvalid, _)) << job;
  }
  EXPECT_THAT(ParseSchedule(head), StatusIs(kInvalid, HasSubstr("the end")));
  EXPECT_THAT(ParseSchedule(head + "}} more"),
              StatusIs(kInvalid, HasSubstr("more")));
}

TEST(ScheduleTest, EveryJobTypeHasAName) {
  for (JobType type : kJobTypes) EXPECT_EQ(ParseJobType(ToString(type)), type);
  EXPECT_EQ(ParseJobType("Forward"), std::nullopt);
}

}  // namespace
}  // namespace mica
