#include "executor/control/control_run.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "executor/executor.h"
#include "executor/job/job.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

absl::StatusOr<std::shared_ptr<const Program>> ParseOrError(
    absl::string_view text) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  if (!program.ok()) return program.status();
  return std::make_shared<const Program>(*std::move(program));
}

// All f32 results one behind the other, with inputs f32[2] %x and i64[] %n.
absl::StatusOr<Floats> RunWith(const KernelRegistry& kernels,
                               const PlanOptions& options,
                               absl::string_view text, Floats x, int64_t n) {
  absl::StatusOr<std::shared_ptr<const Program>> program = ParseOrError(text);
  if (!program.ok()) return program.status();
  auto executor = Executor::Create(Place(), AllOps(), kernels, options);
  if (!executor.ok()) return executor.status();
  const NamedViews feeds = {
      {"x", {.data = x.data(), .type = {.dims = {2}}}},
      {"n", {.data = &n, .type = {.dtype = DType::kI64}}}};
  // Twice, so that what the first run leaves behind would show.
  auto results = (*executor)->Run(*program, feeds, {}, {});
  if (!results.ok()) return results.status();
  results = (*executor)->Run(*program, feeds, {}, {});
  if (!results.ok()) return results.status();
  Floats all;
  for (const Tensor& result : *results) {
    absl::StatusOr<Tensor> dense = Tensor::CopyOf(result.view());
    if (!dense.ok()) return dense.status();
    const auto* data = static_cast<const float*>(dense->data());
    all.insert(all.end(), data, data + dense->type().num_elements());
  }
  return all;
}

// The same with all ways to plan; they must agree.
absl::StatusOr<Floats> RunAllWays(absl::string_view text, Floats x, int64_t n) {
  const PlanOptions plain = {.fuse = false, .reuse_buffers = false};
  auto want = RunWith(ReferenceKernels(), plain, text, x, n);
  if (!want.ok()) return want;
  const std::vector<PlanOptions> all_options = {
      {.fuse = false},
      {.fuse = true},
      {.fuse = true, .lend_above_bytes = 0},
      {.frozen = true, .fuse = true},
      {.num_threads = 2, .queue = true, .take_nanoseconds = 0},
      {.num_streams = 3, .wait_nanoseconds = 0, .fuse = true}};
  for (const PlanOptions& options : all_options) {
    auto got = RunWith(AllKernels(), options, text, x, n);
    if (!got.ok()) return got;
    EXPECT_EQ(*got, *want) << "fuse=" << options.fuse
                           << " frozen=" << options.frozen
                           << " streams=" << options.num_streams
                           << " lend_above=" << options.lend_above_bytes;
  }
  return want;
}

constexpr char kBranch[] = R"(program @branch(%x: f32[2], %n: i64[]) {
  %p = aten.gt.Scalar(%n, 0) : bool[]
  %y = mica.if(%p, [%x]) : f32[2] @ "m.py":3
    then(%a: f32[2]) {
      %0 = aten.add.Scalar(%a, 1) : f32[2]
      %1 = aten.relu(%0) : f32[2]
      return %1
    }
    else(%a: f32[2]) {
      %0 = aten.neg(%a) : f32[2]
      return %0
    }
  %z = aten.mul.Scalar(%y, 10) : f32[2]
  return %z, %y
}
)";

TEST(ControlRunTest, RunsOneBranch) {
  MICA_ASSERT_OK_AND_ASSIGN(Floats got, RunAllWays(kBranch, {2, -3}, 1));
  EXPECT_THAT(got, ElementsAre(30, 0, 3, 0));
  MICA_ASSERT_OK_AND_ASSIGN(got, RunAllWays(kBranch, {2, -3}, 0));
  EXPECT_THAT(got, ElementsAre(-20, 30, -2, 3));
}

TEST(ControlRunTest, TakesAHostScalarAsPredicate) {
  constexpr char kText[] = R"(program @p(%x: f32[2], %n: i64[]) {
  %p = constant true : bool
  %y = mica.if(%p, [%x]) : f32[2]
    then(%a: f32[2]) {
      return %a
    }
    else(%a: f32[2]) {
      %0 = aten.neg(%a) : f32[2]
      return %0
    }
  return %y
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(const Floats got, RunAllWays(kText, {2, -3}, 1));
  EXPECT_THAT(got, ElementsAre(2, -3));
}

// %n rounds of %body, which carries %a and %b, both f32[2], and counts %i.
std::string Loop(absl::string_view body, absl::string_view returned,
                 absl::string_view initial = "%x, %y") {
  return absl::StrReplaceAll(
      R"(program @loop(%x: f32[2], %n: i64[]) {
  %zero = constant [0] : i64[]
  %y = aten.neg(%x) : f32[2]
  %r, %s, %j = mica.while([$initial, %zero], [%n, %x]) : f32[2], f32[2], i64[] @ "m.py":7
    cond(%a: f32[2], %b: f32[2], %i: i64[], %n: i64[], %x: f32[2]) {
      %p = aten.lt.Tensor(%i, %n) : bool[]
      return %p
    }
    body(%a: f32[2], %b: f32[2], %i: i64[], %n: i64[], %x: f32[2]) {
      %next = aten.add.Scalar(%i, 1) : i64[]
      $body
      return $returned, %next
    }
  return %r, %s
}
)",
      {{"$body", body}, {"$returned", returned}, {"$initial", initial}});
}

TEST(ControlRunTest, RunsARoundAsOftenAsTheConditionHolds) {
  const std::string text = Loop(
      "%c = aten.add.Tensor(%a, %x) : f32[2]\n"
      "%d = aten.relu(%c) : f32[2]",
      "%d, %b");
  for (int64_t n = 0; n < 6; ++n) {
    MICA_ASSERT_OK_AND_ASSIGN(const Floats got, RunAllWays(text, {2, -3}, n));
    EXPECT_THAT(got, ElementsAre(2.0f * (n + 1), n == 0 ? -3 : 0, -2, 3)) << n;
  }
}

TEST(ControlRunTest, SwapsWhatItCarries) {
  const std::string text = Loop("", "%b, %a");
  for (int64_t n = 0; n < 5; ++n) {
    MICA_ASSERT_OK_AND_ASSIGN(const Floats got, RunAllWays(text, {2, -3}, n));
    if (n % 2 == 0) {
      EXPECT_THAT(got, ElementsAre(2, -3, -2, 3)) << n;
    } else {
      EXPECT_THAT(got, ElementsAre(-2, 3, 2, -3)) << n;
    }
  }
}

// The second result reads what the first has just overwritten, if there is but
// one home for it.
TEST(ControlRunTest, ReadsTheValuesOfTheRoundBefore) {
  const std::string text = Loop(
      "%c = aten.add.Tensor(%a, %b) : f32[2]\n"
      "%d = aten.sub.Tensor(%a, %b) : f32[2]",
      "%c, %d");
  Floats a = {2, -3}, b = {-2, 3};
  for (int64_t n = 0; n < 5; ++n) {
    MICA_ASSERT_OK_AND_ASSIGN(const Floats got, RunAllWays(text, {2, -3}, n));
    EXPECT_THAT(got, ElementsAre(a[0], a[1], b[0], b[1])) << n;
    const Floats c = {a[0] + b[0], a[1] + b[1]};
    b = {a[0] - b[0], a[1] - b[1]};
    a = c;
  }
}

TEST(ControlRunTest, CarriesWhatStaysAsItIs) {
  const std::string text =
      Loop("%c = aten.add.Tensor(%b, %x) : f32[2]", "%a, %c");
  MICA_ASSERT_OK_AND_ASSIGN(const Floats got, RunAllWays(text, {2, -3}, 3));
  EXPECT_THAT(got, ElementsAre(2, -3, 4, -6));
}

TEST(ControlRunTest, CarriesAnInvariant) {
  const std::string text = Loop("", "%x, %a", "%y, %y");
  for (int64_t n = 0; n < 4; ++n) {
    MICA_ASSERT_OK_AND_ASSIGN(const Floats got, RunAllWays(text, {2, -3}, n));
    const float a = n < 1 ? -2 : 2, b = n < 2 ? -2 : 2;
    EXPECT_THAT(got, ElementsAre(a, -1.5f * a, b, -1.5f * b)) << n;
  }
}

TEST(ControlRunTest, CarriesOneValueTwice) {
  const std::string text =
      Loop("%c = aten.add.Tensor(%a, %b) : f32[2]", "%c, %c", "%x, %x");
  for (int64_t n = 0; n < 4; ++n) {
    MICA_ASSERT_OK_AND_ASSIGN(const Floats got, RunAllWays(text, {2, -3}, n));
    const float by = static_cast<float>(1 << n);
    EXPECT_THAT(got, ElementsAre(2 * by, -3 * by, 2 * by, -3 * by)) << n;
  }
}

TEST(ControlRunTest, CarriesAView) {
  // Reversed by a select of each element.
  const std::string text = Loop(
      "%c = aten.select.int(%a, 0, 1) : f32[]\n"
      "%d = aten.select.int(%a, 0, 0) : f32[]\n"
      "%e = aten.stack([%c, %d]) : f32[2]\n"
      "%f = aten.view(%e, [1,2]) : f32[1,2]\n"
      "%g = aten.view(%f, [2]) : f32[2]",
      "%g, %b");
  for (int64_t n = 0; n < 4; ++n) {
    MICA_ASSERT_OK_AND_ASSIGN(const Floats got, RunAllWays(text, {2, -3}, n));
    EXPECT_THAT(got,
                ElementsAre(n % 2 == 0 ? 2 : -3, n % 2 == 0 ? -3 : 2, -2, 3))
        << n;
  }
}

TEST(ControlRunTest, StartsWithAViewThatHasGaps) {
  constexpr char kText[] = R"(program @p(%x: f32[2], %n: i64[]) {
  %m = aten.stack([%x, %x], dim=1) : f32[2,2]
  %c = aten.select.int(%m, 1, 0) : f32[2]{2}
  %zero = constant [0] : i64[]
  %r, %j = mica.while([%c, %zero], [%n]) : f32[2], i64[]
    cond(%a: f32[2], %i: i64[], %n: i64[]) {
      %p = aten.lt.Tensor(%i, %n) : bool[]
      return %p
    }
    body(%a: f32[2], %i: i64[], %n: i64[]) {
      %b = aten.add.Scalar(%a, 1) : f32[2]
      %next = aten.add.Scalar(%i, 1) : i64[]
      return %b, %next
    }
  %s = mica.if(%j, [%c]) : f32[2]
    then(%a: f32[2]{2}) {
      return %a
    }
    else(%a: f32[2]{2}) {
      return %a
    }
  return %r
}
)";
  const std::string text =
      absl::StrReplaceAll(kText, {{"%s = mica.if(%j",
                                   "%q = aten.gt.Scalar(%n, 0) : bool[]\n"
                                   "%s = mica.if(%q"},
                                  {"return %r", "return %r, %s"}});
  for (int64_t n = 0; n < 4; ++n) {
    MICA_ASSERT_OK_AND_ASSIGN(const Floats got, RunAllWays(text, {2, -3}, n));
    EXPECT_THAT(got, ElementsAre(2.0f + n, -3.0f + n, 2, -3)) << n;
  }
}

// Collatz: the smallest loop with a branch, here run for each of two starts.
TEST(ControlRunTest, NestsLoopsAndBranches) {
  constexpr char kText[] = R"(program @p(%x: f32[2], %n: i64[]) {
  %zero = constant [0.0] : f32[]
  %steps, %last = mica.while([%zero, %n], []) : f32[], i64[]
    cond(%steps: f32[], %k: i64[]) {
      %p = aten.gt.Scalar(%k, 1) : bool[]
      return %p
    }
    body(%steps: f32[], %k: i64[]) {
      %rest = aten.remainder.Scalar(%k, 2) : i64[]
      %odd = aten.eq.Scalar(%rest, 1) : bool[]
      %next = mica.if(%odd, [%k]) : i64[]
        then(%k: i64[]) {
          %0 = aten.mul.Scalar(%k, 3) : i64[]
          %1 = aten.add.Scalar(%0, 1) : i64[]
          return %1
        }
        else(%k: i64[]) {
          %one = constant [1] : i64[]
          %h, %r = mica.while([%zero, %k], [%one]) : i64[], i64[]
            cond(%h: i64[], %r: i64[], %one: i64[]) {
              %p = aten.gt.Tensor(%r, %one) : bool[]
              return %p
            }
            body(%h: i64[], %r: i64[], %one: i64[]) {
              %0 = aten.add.Tensor(%h, %one) : i64[]
              %1 = aten.sub.Scalar(%r, 2) : i64[]
              return %0, %1
            }
          return %h
        }
      %more = aten.add.Scalar(%steps, 1) : f32[]
      return %more, %next
    }
  return %steps
}
)";
  const std::string text =
      absl::StrReplaceAll(kText, {{"%one = constant [1] : i64[]",
                                   "%one = constant [1] : i64[]\n"
                                   "          %zero = constant [0] : i64[]"}});
  MICA_ASSERT_OK_AND_ASSIGN(Floats got, RunAllWays(text, {0, 0}, 1));
  EXPECT_THAT(got, ElementsAre(0));
  MICA_ASSERT_OK_AND_ASSIGN(got, RunAllWays(text, {0, 0}, 27));
  EXPECT_THAT(got, ElementsAre(111));
}

TEST(ControlRunTest, FeedsUpdates) {
  const std::string text = absl::StrReplaceAll(
      kBranch, {{"return %z, %y", "update %x = %z\n  return"}});
  MICA_ASSERT_OK_AND_ASSIGN(const auto program, ParseOrError(text));
  MICA_ASSERT_OK_AND_ASSIGN(
      auto executor, Executor::Create(Place(), AllOps(), AllKernels(), {}));
  Floats x = {2, -3};
  int64_t n = 1;
  const NamedViews feeds = {
      {"x", {.data = x.data(), .type = {.dims = {2}}}},
      {"n", {.data = &n, .type = {.dtype = DType::kI64}}}};
  MICA_ASSERT_OK(executor->Run(program, feeds, {}, {}));
  EXPECT_THAT(x, ElementsAre(30, 0));
}

TEST(ControlRunTest, PacksFrozenWeightsForBodies) {
  constexpr char kText[] = R"(program @p(%x: f32[4,64], %n: i64[]) {
  %w = variable "w" : f32[64,64]
  %v = variable "v" : f32[64,64]
  %zero = constant [0] : i64[]
  %y, %i = mica.while([%x, %zero], [%v, %n, %w]) : f32[4,64], i64[]
    cond(%x: f32[4,64], %i: i64[], %v: f32[64,64], %n: i64[], %w: f32[64,64]) {
      %p = aten.lt.Tensor(%i, %n) : bool[]
      return %p
    }
    body(%x: f32[4,64], %i: i64[], %v: f32[64,64], %n: i64[], %w: f32[64,64]) {
      %next = aten.add.Scalar(%i, 1) : i64[]
      %odd = aten.remainder.Scalar(%i, 2) : i64[]
      %p = aten.eq.Scalar(%odd, 1) : bool[]
      %y = mica.if(%p, [%x, %w, %v]) : f32[4,64]
        then(%x: f32[4,64], %w: f32[64,64], %v: f32[64,64]) {
          %t = aten.t(%w) : f32[64,64]{1,64}
          %h = aten.mm(%x, %t) : f32[4,64]
          return %h
        }
        else(%x: f32[4,64], %w: f32[64,64], %v: f32[64,64]) {
          %h = aten.mm(%x, %v) : f32[4,64]
          return %h
        }
      %z = aten.tanh(%y) : f32[4,64]
      return %z, %next
    }
  return %y
}
)";
  MICA_ASSERT_OK_AND_ASSIGN(const auto program, ParseOrError(kText));
  Floats x(4 * 64), w(64 * 64), v(64 * 64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = (i % 7) * 0.1f - 0.3f;
  for (size_t i = 0; i < w.size(); ++i) w[i] = (i % 11) * 0.02f - 0.1f;
  for (size_t i = 0; i < v.size(); ++i) v[i] = (i % 13) * 0.02f - 0.1f;
  int64_t n = 5;
  const TensorType square = {.dims = {64, 64}};
  const NamedViews variables = {{"w", {.data = w.data(), .type = square}},
                                {"v", {.data = v.data(), .type = square}}};
  const NamedViews feeds = {
      {"x", {.data = x.data(), .type = {.dims = {4, 64}}}},
      {"n", {.data = &n, .type = {.dtype = DType::kI64}}}};
  std::vector<Floats> results;
  for (const bool frozen : {false, true}) {
    MICA_ASSERT_OK_AND_ASSIGN(
        auto executor,
        Executor::Create(Place(), AllOps(), AllKernels(), {.frozen = frozen}));
    MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                              executor->PlanFor(program, feeds, {}));
    EXPECT_EQ(plan->packed().size(), frozen ? 2u : 0u) << plan->ToText();
    MICA_ASSERT_OK_AND_ASSIGN(const auto got,
                              executor->Run(program, feeds, variables, {}));
    const auto* data = static_cast<const float*>(got[0].data());
    results.emplace_back(data, data + x.size());
  }
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(results[0][i], results[1][i], 1e-5) << i;
  }
}

TEST(ControlRunTest, SharesOnePlanAmongJobsAtOnce) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto program,
      ParseOrError(Loop("%c = aten.add.Tensor(%a, %x) : f32[2]", "%c, %b")));
  MICA_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Plan> plan,
                            Plan::Build(*program, AllOps(), AllKernels(), {}));
  MICA_ASSERT_OK_AND_ASSIGN(const auto binding, Binding::Create(plan, {}));
  std::vector<std::thread> threads;
  std::vector<Floats> results(4, Floats(4));
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto job = Job::Create(binding);
      ASSERT_THAT(job, IsOk());
      Floats x = {static_cast<float>(t), 1};
      for (int64_t n = 0; n < 200; ++n) {
        (*job)->SetInput(0, x.data());
        (*job)->SetInput(1, &n);
        (*job)->SetOutput(0, results[t].data());
        (*job)->SetOutput(1, results[t].data() + 2);
        ASSERT_THAT((*job)->Run(), IsOk());
        ASSERT_EQ(results[t][0], static_cast<float>(t) * (n + 1));
        ASSERT_EQ(results[t][1], static_cast<float>(n + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ControlRunTest, ACancelledLoopEnds) {
  const std::string text = absl::StrReplaceAll(
      Loop("%c = aten.add.Tensor(%a, %x) : f32[2]", "%c, %b"),
      {{"%next = aten.add.Scalar(%i, 1)", "%next = aten.mul.Scalar(%i, 1)"}});
  MICA_ASSERT_OK_AND_ASSIGN(const auto program, ParseOrError(text));
  MICA_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Plan> plan,
                            Plan::Build(*program, AllOps(), AllKernels(), {}));
  MICA_ASSERT_OK_AND_ASSIGN(const auto binding, Binding::Create(plan, {}));
  MICA_ASSERT_OK_AND_ASSIGN(const auto job, Job::Create(binding));
  Floats x = {1, 1}, r(2), s(2);
  int64_t n = 1;
  job->SetInput(0, x.data());
  job->SetInput(1, &n);
  job->SetOutput(0, r.data());
  job->SetOutput(1, s.data());
  std::atomic<bool> has_ended = false;
  std::thread other([&] {
    // A run that hasn't begun isn't cancelled.
    while (!has_ended) job->Cancel();
  });
  const absl::Status status = job->Run();
  has_ended = true;
  other.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  n = 0;
  MICA_EXPECT_OK(job->Run());
}

// An index that only the third round has out of range.
constexpr char kFailing[] =
    "%c = aten.index_select(%a, 0, %i1) : f32[1]\n"
    "%d = aten.add.Tensor(%b, %c) : f32[2]";

TEST(ControlRunTest, NamesTheBodyTheRoundAndTheLineOfAFailure) {
  std::string text = Loop(kFailing, "%a, %d");
  text = absl::StrReplaceAll(
      text, {{"%c = ", "%i1 = aten.view(%i, [1]) : i64[1]\n%c = "},
             {"%i1) : f32[1]", "%i1) : f32[1] @ \"m.py\":9"}});
  MICA_ASSERT_OK_AND_ASSIGN(const auto program, ParseOrError(text));
  MICA_ASSERT_OK_AND_ASSIGN(
      auto executor, Executor::Create(Place(), AllOps(), AllKernels(), {}));
  Floats x = {2, -3};
  int64_t n = 5;
  const NamedViews feeds = {
      {"x", {.data = x.data(), .type = {.dims = {2}}}},
      {"n", {.data = &n, .type = {.dtype = DType::kI64}}}};
  EXPECT_THAT(executor->Run(program, feeds, {}, {}).status().message(),
              AllOf(HasSubstr("mica.while (m.py:7): body, round 2: "),
                    HasSubstr("aten.index_select (m.py:9)")));
  // It can be used again.
  n = 2;
  MICA_EXPECT_OK(executor->Run(program, feeds, {}, {}));
  // Of another Program that shares the Plan the lines are its own.
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto other,
      ParseOrError(absl::StrReplaceAll(text, {{"m.py\":9", "other.py\":1"}})));
  n = 5;
  EXPECT_THAT(executor->Run(other, feeds, {}, {}).status().message(),
              HasSubstr("aten.index_select (other.py:1)"));
}

}  // namespace
}  // namespace mica
