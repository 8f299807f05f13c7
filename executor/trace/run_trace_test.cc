#include "executor/trace/run_trace.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/job/job.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "framework/trace/recorder.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using Kind = TraceEvent::Kind;

// Two chains beside each other, joined at the end; what comes first of them is
// kept for an update.
constexpr absl::string_view kLadder = R"(
program @ladder(%x: f32[64,64]) {
  %w = variable "w" : f32[64,64]
  %a = aten.mm(%x, %w) : f32[64,64]
  %b = aten.mm(%w, %x) : f32[64,64]
  %a1 = aten.mm(%a, %a) : f32[64,64]
  %b1 = aten.mm(%b, %b) : f32[64,64]
  %a2 = aten.mm(%a1, %a1) : f32[64,64]
  %b2 = aten.mm(%b1, %b1) : f32[64,64]
  %y = aten.mm(%a2, %b2) : f32[64,64]
  update %w = %a
  return %y
}
)";

struct Traced {
  std::shared_ptr<const Plan> plan;
  TraceEvents trace;
};

class FailAt : public StepObserver {
 public:
  explicit FailAt(StepId step) : step_(step) {}
  absl::Status BeforeStep(StepId step, int) override {
    if (step == step_) return absl::InternalError("injected");
    return absl::OkStatus();
  }

 private:
  const StepId step_;
};

Traced Trace(const PlanOptions& options, int runs, StepId failing = -1) {
  Traced traced;
  const auto program = ParseProgram(kLadder, AllOps());
  EXPECT_TRUE(program.ok()) << program.status();
  traced.plan = *Plan::Build(*program, AllOps(), AllKernels(), options);
  std::vector<float> w(64 * 64, 0.5f), x(64 * 64, 0.25f), y(64 * 64);
  auto binding = Binding::Create(
      traced.plan, {{.data = w.data(),
                     .type = program->type(program->variables()[0].value)}});
  EXPECT_TRUE(binding.ok()) << binding.status();
  JobOptions job_options;
  if (failing >= 0) {
    job_options.observers.push_back(std::make_shared<FailAt>(failing));
  }
  auto job = *Job::Create(*std::move(binding), std::move(job_options));
  job->SetInput(0, x.data());
  job->SetOutput(0, y.data());
  EXPECT_EQ(job->Run().ok(), failing < 0);  // Not recorded.
  EXPECT_TRUE(StartTrace().ok());
  for (int i = 0; i < runs; ++i) EXPECT_EQ(job->Run().ok(), failing < 0);
  traced.trace = StopTrace();
  EXPECT_EQ(job->Run().ok(), failing < 0);  // Not recorded.
  return traced;
}

std::vector<const TraceEvent*> SpansOf(const Traced& traced,
                                       absl::string_view category) {
  std::vector<const TraceEvent*> spans;
  for (const TraceEvent& event : traced.trace.events) {
    if (event.kind == Kind::kSpan && event.category == category) {
      spans.push_back(&event);
    }
  }
  return spans;
}

int64_t Number(const TraceEvent& event, absl::string_view name) {
  for (const TraceArg& arg : event.args) {
    if (arg.name == name) return std::get<int64_t>(arg.value);
  }
  ADD_FAILURE() << event.name << " has no " << name;
  return -1;
}

// On each row spans are beside or within each other, and none is negative.
void ExpectNesting(const TraceEvents& trace) {
  for (const TraceEvent& a : trace.events) {
    if (a.kind != Kind::kSpan) continue;
    EXPECT_LE(0, a.start_ns);
    EXPECT_LE(a.start_ns, a.end_ns);
    ASSERT_LT(a.track, trace.tracks.size());
    for (const TraceEvent& b : trace.events) {
      if (b.kind != Kind::kSpan || a.track != b.track) continue;
      const bool is_beside = a.end_ns <= b.start_ns || b.end_ns <= a.start_ns;
      const bool is_within =
          (a.start_ns <= b.start_ns && b.end_ns <= a.end_ns) ||
          (b.start_ns <= a.start_ns && a.end_ns <= b.end_ns);
      EXPECT_TRUE(is_beside || is_within) << a.name << ", " << b.name;
    }
  }
}

TEST(RunTraceTest, HasEachStepOfEachRunOnce) {
  for (const bool queue : {false, true}) {
    for (const int streams : {1, 2}) {
      const Traced traced = Trace({.num_threads = 2,
                                   .queue = queue,
                                   .take_nanoseconds = 0,
                                   .num_streams = streams,
                                   .wait_nanoseconds = 0,
                                   .fuse = false},
                                  3);
      const Plan& plan = *traced.plan;
      ASSERT_EQ(plan.streams().num_streams, streams);
      EXPECT_EQ(plan.queue().num_workers, queue && streams == 1 ? 2 : 1);
      std::map<int64_t, int> seen;
      for (const TraceEvent* span : SpansOf(traced, "step")) {
        const int64_t id = Number(*span, "step");
        ++seen[id];
        EXPECT_EQ(span->name, plan.steps()[id].name);
        if (streams == 1 || id >= plan.num_compute()) continue;
        const int stream = plan.streams().streams[id];
        EXPECT_EQ(Number(*span, "stream"), stream);
        EXPECT_EQ(traced.trace.tracks[span->track],
                  stream == 0 ? "main" : absl::StrCat("stream ", stream));
      }
      EXPECT_EQ(seen.size(), plan.steps().size());
      for (const auto& [id, count] : seen) EXPECT_EQ(count, 3) << id;
      // Computed, then committed.
      EXPECT_EQ(SpansOf(traced, "run").size(), 2 * 3);
      ExpectNesting(traced.trace);
    }
  }
}

TEST(RunTraceTest, StepsFollowTheirWaits) {
  const Traced traced =
      Trace({.num_streams = 2, .wait_nanoseconds = 0, .fuse = false}, 1);
  std::map<int64_t, const TraceEvent*> spans;
  for (const TraceEvent* span : SpansOf(traced, "step")) {
    spans[Number(*span, "step")] = span;
  }
  for (const Wait& wait : traced.plan->streams().waits) {
    EXPECT_LE(spans[wait.signal]->end_ns, spans[wait.waiter]->start_ns);
  }
}

TEST(RunTraceTest, MemoryIsThePlans) {
  const Traced traced = Trace({.fuse = false}, 2);
  const Plan& plan = *traced.plan;
  // What is alive in the arena at each step, by the plan.
  std::vector<int64_t> live(plan.steps().size());
  for (const PlanSlice& slice : plan.slices()) {
    if (slice.at.home != Home::kArena) continue;
    for (StepId id = slice.first; id <= slice.last; ++id) {
      live[id] += slice.bytes;
    }
  }
  // The last counter before a step's end tells of it.
  std::vector<const TraceEvent*> counters;
  for (const TraceEvent& event : traced.trace.events) {
    if (event.kind == Kind::kCounter) counters.push_back(&event);
  }
  ASSERT_FALSE(counters.empty());
  int64_t peak = 0;
  for (const TraceEvent* counter : counters) {
    EXPECT_EQ(counter->name, counters[0]->name);
    EXPECT_GE(Number(*counter, "arena"), 0);
    EXPECT_LE(Number(*counter, "arena"), plan.arena_bytes());
    peak = std::max(peak, Number(*counter, "arena"));
  }
  EXPECT_GT(peak, 0);
  EXPECT_EQ(peak, *std::max_element(live.begin(), live.end()));
  for (const TraceEvent* span : SpansOf(traced, "step")) {
    int64_t now = -1;
    int64_t start_ns = -1;
    for (const TraceEvent* counter : counters) {
      // Events of one run come before those of the next.
      if (counter->start_ns > span->start_ns) continue;
      if (counter->start_ns < start_ns) continue;
      start_ns = counter->start_ns;
      now = Number(*counter, "arena");
    }
    EXPECT_EQ(now, live[Number(*span, "step")]) << span->name;
  }
  EXPECT_EQ(Number(*counters.back(), "arena"), 0);
  EXPECT_EQ(Number(*counters.back(), "outside"), 0);
}

TEST(RunTraceTest, ResultsLieOutside) {
  const Traced traced = Trace({.fuse = false}, 1);
  int64_t outside = 0;
  for (const TraceEvent& event : traced.trace.events) {
    if (event.kind != Kind::kCounter) continue;
    outside = std::max(outside, Number(event, "outside"));
  }
  EXPECT_EQ(outside, 64 * 64 * sizeof(float));
}

TEST(RunTraceTest, AFailedStepEndsTheMemory) {
  const Traced traced = Trace({.fuse = false}, 2, 3);
  const auto steps = SpansOf(traced, "step");
  // The injected failure comes before the trace is told of the step.
  ASSERT_EQ(steps.size(), 2 * 3);
  ExpectNesting(traced.trace);
  int64_t last = -1;
  for (const TraceEvent& event : traced.trace.events) {
    if (event.kind == Kind::kCounter) last = Number(event, "arena");
  }
  EXPECT_EQ(last, 0);
}

}  // namespace
}  // namespace mica
