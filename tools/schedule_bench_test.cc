#include "tools/schedule_bench.h"

#include <string>

#include "framework/base/file.h"
#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::HasSubstr;

TEST(ScheduleBenchTest, GivesFiguresInTimesOfADevice) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto plain,
                            RunScheduleBench({.schedule = "1f1b"}));
  EXPECT_EQ(plain["makespan"], 33.0);
  EXPECT_EQ(plain["peak_activations"], 4);
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto chunks,
      RunScheduleBench({.schedule = "interleaved", .activation_bytes = 100}));
  EXPECT_EQ(chunks["makespan"], 24 + 4.5);
  EXPECT_EQ(chunks["peak_activations"], 11);
  EXPECT_EQ(chunks["peak_activation_bytes"], 550);
}

TEST(ScheduleBenchTest, ReadsBackTheScheduleThatItWrites) {
  const std::string path = testing::TempDir() + "/zbv.schedule";
  MICA_ASSERT_OK_AND_ASSIGN(
      auto made, RunScheduleBench({.schedule = "zbv", .text_path = path}));
  MICA_ASSERT_OK_AND_ASSIGN(auto read, RunScheduleBench({.schedule = path}));
  for (const char* key : {"makespan", "bubble", "peak_activations_by_device"}) {
    EXPECT_EQ(made[key], read[key]);
  }
}

TEST(ScheduleBenchTest, WritesAPictureAndATrace) {
  const std::string svg = testing::TempDir() + "/h1.svg";
  const std::string trace = testing::TempDir() + "/h1.json";
  MICA_ASSERT_OK(RunScheduleBench({.schedule = "zb_h1",
                                   .costs = "forward=2,send=0.5",
                                   .svg_path = svg,
                                   .trace_path = trace}));
  EXPECT_THAT(*ReadFile(svg), HasSubstr("zb_h1: makespan"));
  EXPECT_THAT(*ReadFile(trace), HasSubstr("traceEvents"));
}

TEST(ScheduleBenchTest, RefusesWhatIsNone) {
  EXPECT_THAT(RunScheduleBench({.schedule = "nope"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("zb_h1")));
  EXPECT_THAT(RunScheduleBench({.schedule = "1f1b", .costs = "sleep=1"}),
              StatusIs(kInvalid, HasSubstr("sleep=1 is no cost")));
  EXPECT_THAT(RunScheduleBench({.schedule = "1f1b", .costs = "send=-1"}),
              StatusIs(kInvalid, HasSubstr("sending")));
  EXPECT_THAT(RunScheduleBench({.schedule = "1f1b", .num_devices = 0}),
              StatusIs(kInvalid, HasSubstr("devices")));
  EXPECT_THAT(RunScheduleBench({.schedule = "1f1b", .num_devices = -4}),
              StatusIs(kInvalid, HasSubstr("-4")));
}

}  // namespace
}  // namespace mica
