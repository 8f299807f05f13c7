// Runs that somebody outside may end.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/job/job.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using ::testing::HasSubstr;

std::atomic<int> flag = 0;
std::atomic<int> num_answers = 0;
std::atomic<bool> shall_end = false;
std::thread::id who_answers;

// One thread alone can answer, as of Python's.
absl::Status Ask() {
  if (std::this_thread::get_id() != who_answers) return absl::OkStatus();
  flag = 0;
  ++num_answers;
  if (!shall_end) return absl::OkStatus();
  return absl::CancelledError("asked to end");
}

// Chains of products beside loops that end at once, or never if %n is above 0;
// then %w is updated.
std::string Loops(int num_loops) {
  std::string text = R"(program @p(%n: i64[], %x: f32[64,64]) {
  %w = variable "w" : f32[64,64]
  %zero = constant [0] : i64[]
  %a = aten.mm(%x, %w) : f32[64,64]
  %b = aten.mm(%a, %x) : f32[64,64]
  %c = aten.mm(%w, %x) : f32[64,64]
  %d = aten.mm(%c, %x) : f32[64,64]
  %e = aten.add.Tensor(%b, %d) : f32[64,64]
)";
  std::string results;
  for (int i = 0; i < num_loops; ++i) {
    absl::StrAppend(&text, "  %r", i, R"( = mica.while([%zero], [%n]) : i64[]
    cond(%i: i64[], %n: i64[]) {
      %p = aten.lt.Tensor(%i, %n) : bool[]
      return %p
    }
    body(%i: i64[], %n: i64[]) {
      %next = aten.mul.Scalar(%i, 1) : i64[]
      return %next
    }
)");
    absl::StrAppend(&results, i == 0 ? "" : ", ", "%r", i);
  }
  return absl::StrCat(text, "  update %w = %e\n  return ", results, "\n}\n");
}

void EndsWhenItIsAsked(const PlanOptions& options, int num_loops) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto program,
                            ParseProgram(Loops(num_loops), AllOps()));
  MICA_ASSERT_OK_AND_ASSIGN(
      const std::shared_ptr<const Plan> plan,
      Plan::Build(program, AllOps(), AllKernels(), options));
  std::vector<float> w(64 * 64, 1), x(64 * 64, 1);
  const TensorType type = {.dims = {64, 64}};
  MICA_ASSERT_OK_AND_ASSIGN(
      auto binding, Binding::Create(plan, {{.data = w.data(), .type = type}}));
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto job, Job::Create(std::move(binding),
                                  {.interrupt = {.flag = &flag, .ask = &Ask}}));
  int64_t n = 1;
  std::vector<int64_t> results(num_loops);
  job->SetInput(0, &n);
  job->SetInput(1, x.data());
  for (int i = 0; i < num_loops; ++i) job->SetOutput(i, &results[i]);

  who_answers = std::this_thread::get_id();
  num_answers = 0;
  shall_end = false;
  std::atomic<bool> has_ended = false;
  std::thread other([&] {
    while (!has_ended) {
      flag = 1;
      // What is answered without an error goes on.
      if (num_answers >= 3) shall_end = true;
      std::this_thread::yield();
    }
  });
  const absl::Status status = job->Run();
  has_ended = true;
  other.join();
  flag = 0;
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled,
                               HasSubstr("asked to end")));
  EXPECT_GE(num_answers, 3);
  for (const float value : w) ASSERT_EQ(value, 1);
  n = 0;
  MICA_EXPECT_OK(job->Run());
  EXPECT_EQ(w[0], 2 * 64 * 64);
}

TEST(InterruptTest, ARunInOrderEnds) {
  EndsWhenItIsAsked({}, 1);
  EndsWhenItIsAsked({.fuse = false}, 2);
}

TEST(InterruptTest, ARunOnAQueueEnds) {
  const PlanOptions options = {
      .num_threads = 2, .queue = true, .take_nanoseconds = 0};
  EndsWhenItIsAsked(options, 1);
  EndsWhenItIsAsked(options, 2);
}

TEST(InterruptTest, ARunOnStreamsEnds) {
  for (const int streams : {2, 3}) {
    const PlanOptions options = {.num_streams = streams, .wait_nanoseconds = 0};
    EndsWhenItIsAsked(options, 1);
    EndsWhenItIsAsked(options, 2);
  }
}

}  // namespace
}  // namespace mica
