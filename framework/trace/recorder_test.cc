#include "framework/trace/recorder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "framework/base/test_matchers.h"
#include "nlohmann/json.hpp"

namespace mica {
namespace {

using ::testing::ElementsAre;
using Kind = TraceEvent::Kind;

TEST(RecorderTest, SpansNestOnTheirThreadsRow) {
  MICA_ASSERT_OK(StartTrace());
  {
    TraceSpan outer("a", "outer ", "one");
    EXPECT_TRUE(outer.is_on());
    outer.Add("bytes", int64_t{3});
    const TraceSpan inner("b", "inner");
  }
  const TraceEvents trace = StopTrace();
  ASSERT_EQ(trace.events.size(), 2);
  const TraceEvent& inner = trace.events[0];
  const TraceEvent& outer = trace.events[1];
  EXPECT_EQ(inner.name, "inner");
  EXPECT_EQ(outer.name, "outer one");
  EXPECT_EQ(outer.category, "a");
  EXPECT_EQ(std::get<int64_t>(outer.args[0].value), 3);
  EXPECT_EQ(inner.track, outer.track);
  EXPECT_THAT(trace.tracks, ElementsAre("main"));
  EXPECT_LE(0, outer.start_ns);
  EXPECT_LE(outer.start_ns, inner.start_ns);
  EXPECT_LE(inner.start_ns, inner.end_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
}

TEST(RecorderTest, RecordsNothingUnlessOn) {
  { const TraceSpan span("a", "before"); }
  MICA_ASSERT_OK(StartTrace());
  EXPECT_THAT(StartTrace(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     ::testing::HasSubstr("being recorded")));
  PauseTrace();
  EXPECT_FALSE(TraceSpan("a", "paused").is_on());
  ResumeTrace();
  { const TraceSpan span("a", "kept"); }
  auto late = std::make_unique<TraceSpan>("a", "never ended");
  const TraceEvents trace = StopTrace();
  ASSERT_EQ(trace.events.size(), 1);
  EXPECT_EQ(trace.events[0].name, "kept");
  MICA_ASSERT_OK(StartTrace());
  late = nullptr;  // Of the trace before.
  EXPECT_TRUE(StopTrace().events.empty());
}

TEST(RecorderTest, ThreadsHaveRowsAndLeaveThemToTheirSuccessors) {
  MICA_ASSERT_OK(StartTrace());
  const auto work = [] {
    NameThisThread("worker 1");
    const TraceSpan span("a", "step");
  };
  std::thread(work).join();
  std::thread(work).join();
  std::thread([&] {
    NameThisThread("worker 1");
    const TraceSpan span("a", "step");
    std::thread(work).join();
  }).join();
  std::thread([] { const TraceSpan span("a", "step"); }).join();
  const TraceEvents trace = StopTrace();
  EXPECT_THAT(trace.tracks, ElementsAre("worker 1", "worker 1", "thread 2"));
  std::vector<int32_t> tracks;
  for (const TraceEvent& event : trace.events) tracks.push_back(event.track);
  EXPECT_THAT(tracks, ElementsAre(0, 0, 1, 0, 2));
}

TEST(RecorderTest, ThreadsRecordAtOnce) {
  constexpr int kThreads = 4, kSpans = 500;
  MICA_ASSERT_OK(StartTrace());
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < kSpans; ++j) {
        const TraceSpan span("a", "step");
        if (j % 100 == 0) {
          RecordEvents({{.kind = Kind::kCounter, .start_ns = TraceNow()}});
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(StopTrace().events.size(), kThreads * (kSpans + kSpans / 100));
}

TEST(RecorderTest, StopsAndStartsBesideSpans) {
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    while (!is_over) const TraceSpan span("a", "step");
  });
  for (int i = 0; i < 50; ++i) {
    MICA_ASSERT_OK(StartTrace());
    { const TraceSpan span("a", "mine"); }
    for (const TraceEvent& event : StopTrace().events) {
      EXPECT_LE(0, event.start_ns);
    }
  }
  is_over = true;
  other.join();
}

TEST(RecorderTest, AForkedProcessRecordsNothing) {
  MICA_ASSERT_OK(StartTrace());
  const pid_t child = fork();
  if (child == 0) {
    const bool is_fine =
        !IsTracing() && StopTrace().events.empty() && StartTrace().ok();
    _exit(is_fine ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(IsTracing());
  StopTrace();
}

TEST(TraceEventTest, JsonHasRowsSpansCountersAndArrows) {
  const TraceEvents trace = {
      .tracks = {"main", "worker \"1\"\xff"},
      .events = {{.track = 1,
                  .start_ns = 1500,
                  .end_ns = 4000,
                  .name = "step",
                  .category = "run",
                  .args = {{"bytes", int64_t{12}}, {"line", "m.py:3"}}},
                 {.kind = Kind::kCounter,
                  .start_ns = 2000,
                  .name = "memory",
                  .args = {{"arena", int64_t{64}}}},
                 {.kind = Kind::kArrow,
                  .track = 0,
                  .to_track = 1,
                  .start_ns = 1000,
                  .end_ns = 1500,
                  .name = "send"}}};
  const auto json = nlohmann::json::parse(ToChromeTrace(trace));
  const auto& events = json["traceEvents"];
  ASSERT_EQ(events.size(), 2 * 2 + 1 + 1 + 2);
  EXPECT_EQ(events[0]["args"]["name"], "main");
  const auto& span = events[4];
  EXPECT_EQ(span["ph"], "X");
  EXPECT_EQ(span["tid"], 1);
  EXPECT_EQ(span["ts"], 1.5);
  EXPECT_EQ(span["dur"], 2.5);
  EXPECT_EQ(span["args"]["bytes"], 12);
  EXPECT_EQ(span["args"]["line"], "m.py:3");
  EXPECT_EQ(events[5]["ph"], "C");
  EXPECT_EQ(events[5]["args"]["arena"], 64);
  EXPECT_EQ(events[6]["ph"], "s");
  EXPECT_EQ(events[7]["ph"], "f");
  EXPECT_EQ(events[6]["id"], events[7]["id"]);
}

}  // namespace
}  // namespace mica
