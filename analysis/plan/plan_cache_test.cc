#include "analysis/plan/plan_cache.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_replace.h"
#include "analysis/program_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kLayer[] = R"(program @layer(%x: f32[4,8]) {
  %w = variable "layer.0.weight" : f32[8,8]
  %h = aten.mm(%x, %w) : f32[4,8] @ "model.py":3
  %y = aten.relu(%h) : f32[4,8] @ "model.py":4
  return %y
}
)";

class PlanCacheTest : public testing::Test {
 protected:
  std::shared_ptr<const Plan> Get(const std::shared_ptr<const Program>& program,
                                  const PlanOptions& options = {}) {
    auto plan = cache_.Get(program, options);
    EXPECT_THAT(plan, IsOk());
    return plan.ok() ? *plan : nullptr;
  }

  PlanCache cache_{AllOps(), AllKernels()};
};

TEST_F(PlanCacheTest, OneProgramHasOnePlan) {
  const auto program = ParseShared(kLayer);
  const auto plan = Get(program);
  EXPECT_EQ(Get(program), plan);
  EXPECT_EQ(cache_.stats().built, 1);
  EXPECT_EQ(cache_.stats().shared, 1);
}

TEST_F(PlanCacheTest, EqualProgramsShareWhateverTheirLabels) {
  const auto plan = Get(ParseShared(kLayer));
  EXPECT_EQ(Get(ParseShared(kLayer)), plan);
  EXPECT_EQ(
      Get(ParseShared(absl::StrReplaceAll(
          kLayer, {{"layer", "block"}, {"%h", "%hidden"}, {":3", ":9"}}))),
      plan);
  EXPECT_EQ(cache_.stats().built, 1);
}

TEST_F(PlanCacheTest, OtherProgramsAndOptionsDoNot) {
  const auto program = ParseShared(kLayer);
  const auto plan = Get(program);
  EXPECT_NE(Get(ParseShared(absl::StrReplaceAll(kLayer, {{"[4,8]", "[5,8]"}}))),
            plan);
  EXPECT_NE(Get(program, {.num_threads = 2}), plan);
  EXPECT_NE(Get(program, {.frozen = true}), plan);
  EXPECT_NE(Get(program, {.fuse = false}), plan);
  EXPECT_NE(Get(program, {.reuse_buffers = false}), plan);
  EXPECT_EQ(Get(program), plan);
}

TEST_F(PlanCacheTest, KeepsNoPlanAlive) {
  const auto program = ParseShared(kLayer);
  std::weak_ptr<const Plan> plan = Get(program);
  EXPECT_TRUE(plan.expired());
  for (int i = 0; i < 300; ++i) Get(ParseShared(kLayer));
  EXPECT_EQ(cache_.stats().built, 301);
}

// Keys that have one fingerprint are told apart by what they stand for.
TEST(PlanCacheCollisionTest, ACollisionSharesNothing) {
  PlanCache cache(AllOps(), AllKernels(),
                  [](const Program& program, const PlanOptions& options) {
                    PlanKey key = PlanKeyOf(program, options);
                    key.fingerprint = Fingerprint();
                    return key;
                  });
  const auto small = ParseShared(kLayer);
  const auto large =
      ParseShared(absl::StrReplaceAll(kLayer, {{"[4,8]", "[5,8]"}}));
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, cache.Get(small, {}));
  MICA_ASSERT_OK_AND_ASSIGN(const auto other, cache.Get(large, {}));
  EXPECT_NE(plan, other);
  MICA_ASSERT_OK_AND_ASSIGN(const auto again,
                            cache.Get(ParseShared(kLayer), {}));
  EXPECT_EQ(again, plan);
}

constexpr char kSecret[] = R"(program @o(%x: f32[8]) {
  opaque "aten::secret(Tensor self) -> Tensor"
  %y = aten.secret(%x) : f32[8] @ "first.py":7
  return %y
}
)";

TEST_F(PlanCacheTest, AnErrorNamesTheLineOfTheProgramAtHand) {
  EXPECT_THAT(cache_.Get(ParseShared(kSecret), {}).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("first.py:7")));
  EXPECT_THAT(
      cache_
          .Get(ParseShared(absl::StrReplaceAll(kSecret, {{"first", "second"}})),
               {})
          .status(),
      StatusIs(absl::StatusCode::kNotFound,
               AllOf(HasSubstr("second.py:7"), Not(HasSubstr("first")))));
  EXPECT_EQ(cache_.stats().built, 0);
}

bool DoNothing(const void*, void* const*, LaunchContext&) { return true; }
Verdict PrepareOne(const KernelRequest&) {
  Prepared prepared;
  prepared.launch = &DoNothing;
  return prepared;
}
Verdict PrepareAnother(const KernelRequest& request) {
  return PrepareOne(request);
}

TEST_F(PlanCacheTest, OpaqueOpsShareUnderOneHookOnly) {
  const auto plan = Get(ParseShared(kSecret), {.prepare_aten = &PrepareOne});
  EXPECT_EQ(Get(ParseShared(kSecret), {.prepare_aten = &PrepareOne}), plan);
  EXPECT_NE(Get(ParseShared(kSecret), {.prepare_aten = &PrepareAnother}), plan);
  // A hook that can't be compared is equal to none.
  int calls = 0;
  const PlanOptions options = {.prepare_aten = [&](const KernelRequest& r) {
    ++calls;
    return PrepareOne(r);
  }};
  const auto mine = Get(ParseShared(kSecret), options);
  EXPECT_NE(Get(ParseShared(kSecret), options), mine);
  EXPECT_EQ(calls, 2);
}

TEST_F(PlanCacheTest, WhoAsksAtOnceGetsOnePlan) {
  constexpr int kThreads = 8;
  for (int round = 0; round < 20; ++round) {
    const std::string text = absl::StrReplaceAll(
        kLayer, {{"[4,8]", absl::StrCat("[", 4 + round, ",8]")}});
    std::vector<std::shared_ptr<const Plan>> plans(kThreads);
    std::vector<std::thread> threads;
    std::atomic<int> ready = 0;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const auto program = ParseShared(text);
        ++ready;
        while (ready < kThreads) std::this_thread::yield();
        plans[i] = Get(program);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& plan : plans) EXPECT_EQ(plan, plans[0]);
    EXPECT_EQ(cache_.stats().built, round + 1);
  }
}

TEST_F(PlanCacheTest, ThreadsThatFailAtOnceEachHaveTheirError) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::string file = absl::StrCat("user", i);
      const auto status =
          cache_
              .Get(ParseShared(absl::StrReplaceAll(kSecret, {{"first", file}})),
                   {})
              .status();
      EXPECT_THAT(status.message(), HasSubstr(file));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace mica
