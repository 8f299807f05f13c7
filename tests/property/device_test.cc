// What runs on a device computes what it does on the host.
// MICA_PROPERTY_SEED=7 repeats one seed, MICA_PROPERTY_SEEDS=5000 tries more.

#include <memory>
#include <utility>

#include "analysis/plan/plan.h"
#include "executor/device/simulated_device.h"
#include "framework/base/test_matchers.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/property/random_program.h"
#include "tests/property/runnable.h"
#include "tests/property/seeds.h"

namespace mica {
namespace {

constexpr uint64_t kNumDeviceSeeds = 150;
constexpr int kNumRuns = 3;  // Step by step, as a graph is captured, and by it.

std::shared_ptr<const Plan> Planned(const Program& program, bool is_frozen,
                                    int num_streams) {
  const auto plan =
      Plan::Build(program, AllOps(), AllKernels(),
                  {.num_streams = num_streams,
                   .wait_nanoseconds = 1,  // Worth it for small steps.
                   .frozen = is_frozen});
  EXPECT_THAT(plan, IsOk());
  return *plan;
}

TEST(DeviceTest, RandomProgramsComputeTheSameOnASimulatedDevice) {
  int num_of_streams = 0;
  ForEachSeed(kNumDeviceSeeds, [&](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    const bool is_frozen = seed % 3 == 0 && program.updates().empty();
    const auto plan =
        Planned(program, is_frozen, 1 + static_cast<int>(seed) % 4);
    num_of_streams += plan->streams().num_streams > 1;
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto device,
        MakeSimulatedDevice({.most_delay_microseconds = 3, .seed = seed}));
    MICA_ASSERT_OK_AND_ASSIGN(const Runnable on_host,
                              MakeRunnable(Planned(program, is_frozen, 1)));
    MICA_ASSERT_OK_AND_ASSIGN(const Runnable on_device,
                              MakeRunnable(plan, {}, device));
    for (int i = 0; i < kNumRuns; ++i) {
      MICA_ASSERT_OK(on_host.job->Run());
      MICA_ASSERT_OK(on_device.job->Run());
      MICA_ASSERT_OK_AND_ASSIGN(const Runnable copy, OnHost(on_device));
      EXPECT_TRUE(SameBytes(copy, on_host)) << "run " << i;
    }
    EXPECT_GT(on_device.job->device_run()->num_graph_runs(), 0);
  });
  EXPECT_GT(num_of_streams, 0);
}

}  // namespace
}  // namespace mica
