#include "tools/trace.h"

#include <memory>
#include <string>
#include <vector>

#include "framework/base/test_matchers.h"
#include "kernels/all.h"
#include "nlohmann/json.hpp"
#include "ops/all.h"
#include "tools/generate.h"

namespace mica {
namespace {

TEST(TraceTest, HasASliceForEachStepOnItsStream) {
  MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                            Generate({.kind = "ladder", .ops = 40}, AllOps()));
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto plan,
      Plan::Build(program, AllOps(), AllKernels(),
                  {.num_streams = 2, .wait_nanoseconds = 0, .fuse = false}));
  ASSERT_EQ(plan->streams().num_streams, 2);
  MICA_ASSERT_OK_AND_ASSIGN(auto binding, Binding::Create(plan, {}));
  MICA_ASSERT_OK_AND_ASSIGN(auto job, Job::Create(std::move(binding)));
  std::vector<std::vector<float>> tensors(4, std::vector<float>(64, 1));
  for (int i = 0; i < 2; ++i) {
    job->SetInput(i, tensors[i].data());
    job->SetOutput(i, tensors[2 + i].data());
  }
  MICA_ASSERT_OK_AND_ASSIGN(const auto times, job->Trace());
  ASSERT_EQ(times.size(), plan->steps().size());
  // A step starts when what it waits for has ended.
  for (const Wait& wait : plan->streams().waits) {
    EXPECT_LE(times[wait.signal].end_us, times[wait.waiter].start_us);
  }
  const auto json = nlohmann::json::parse(ToChromeTrace(*plan, times));
  int slices = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_EQ(event["tid"], plan->streams().streams[slices]);
    EXPECT_EQ(event["name"], plan->steps()[slices].name);
    ++slices;
  }
  EXPECT_EQ(slices, 40);
}

}  // namespace
}  // namespace mica
