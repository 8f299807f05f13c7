#include "executor/trace/run_trace.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

std::string NameOfCounter(const Plan& plan) {
  static std::atomic<int64_t> num_jobs = 0;
  const int64_t job = num_jobs.fetch_add(1, std::memory_order_relaxed);
  return absl::StrCat("memory of @", plan.program().name(), ", job ", job);
}

}  // namespace

RunTrace::RunTrace(const Binding& binding)
    : binding_(binding), counter_name_(NameOfCounter(binding.plan())) {
  const Plan& plan = binding.plan();
  entries_.resize(plan.steps().size());
  for (const PackedOperand& packed : plan.packed()) {
    copies_bytes_ += packed.bytes;
  }
  for (const FoldedValue& folded : plan.folded()) {
    if (folded.is_read) copies_bytes_ += folded.bytes;
  }
  steps_of_output_.resize(plan.program().outputs().size());
  for (size_t id = 0; id < plan.steps().size(); ++id) {
    const Step& step = plan.steps()[id];
    for (const Location& arg :
         plan.args().subspan(step.first_arg, step.num_args)) {
      if (arg.home != Home::kOutput) continue;
      steps_of_output_[arg.index].push_back(static_cast<StepId>(id));
    }
  }
}

void RunTrace::Begin(StepId first, StepId end) {
  first_ = first;
  end_ = end;
  std::fill(entries_.begin() + first, entries_.begin() + end, Entry());
  if (first > 0) return;
  arena_bytes_ = 0;
  outside_bytes_ = copies_bytes_;
}

absl::Status RunTrace::BeforeStep(StepId step, int worker) {
  entries_[step] = {.track = ThisThreadTrack(), .worker = worker};
  entries_[step].start_ns = TraceNow();
  return absl::OkStatus();
}

void RunTrace::AfterStep(StepId step, int) {
  entries_[step].end_ns = TraceNow();
}

void RunTrace::End() {
  const int64_t now_ns = TraceNow();
  std::vector<TraceEvent> events;
  bool is_complete = true;
  for (StepId step = first_; step < end_; ++step) {
    is_complete = is_complete && entries_[step].end_ns >= 0;
    if (entries_[step].start_ns >= 0) events.push_back(SpanOf(step, now_ns));
  }
  std::vector<Change> changes;
  AddSliceChanges(changes);
  AddOutputChanges(changes);
  AddCounters(std::move(changes), events);
  // What is computed may have to be committed yet.
  if (!is_complete || end_ == static_cast<StepId>(entries_.size())) {
    arena_bytes_ = 0;
    outside_bytes_ = copies_bytes_;
    AddCounters({{.ns = now_ns}}, events);
  }
  RecordEvents(std::move(events));
}

TraceEvent RunTrace::SpanOf(StepId step, int64_t now_ns) const {
  const Plan& plan = binding_.plan();
  const Step& planned = plan.steps()[step];
  const Entry& entry = entries_[step];
  int64_t bytes = 0;
  for (int32_t i = 0; i < planned.num_args; ++i) {
    bytes += plan.arg_bytes()[planned.first_arg + i];
  }
  TraceEvent span = {.track = entry.track,
                     .start_ns = entry.start_ns,
                     .end_ns = entry.end_ns < 0 ? now_ns : entry.end_ns,
                     .name = std::string(planned.name),
                     .category = "step",
                     .args = {{"step", int64_t{step}},
                              {"kernel", std::string(planned.kernel)},
                              {"bytes", bytes}}};
  if (plan.streams().num_streams > 1 && step < plan.num_compute()) {
    span.args.push_back({"stream", int64_t{entry.worker}});
  } else if (plan.queue().num_workers > 1) {
    span.args.push_back({"worker", int64_t{entry.worker}});
  }
  const SourceLine& source = binding_.SourceOf(planned);
  if (source.line != 0) span.args.push_back({"line", source.ToString()});
  if (entry.end_ns < 0) span.args.push_back({"failed", int64_t{1}});
  return span;
}

void RunTrace::AddSliceChanges(std::vector<Change>& changes) const {
  for (const PlanSlice& slice : binding_.plan().slices()) {
    if (slice.at.home != Home::kArena || slice.bytes == 0) continue;
    const Entry& first = entries_[slice.first];
    const Entry& last = entries_[slice.last];
    if (is_within(slice.first) && first.start_ns >= 0) {
      changes.push_back({.ns = first.start_ns, .arena_bytes = slice.bytes});
    }
    if (is_within(slice.last) && first.end_ns >= 0 && last.end_ns >= 0) {
      // In a queue steps may have changed places.
      changes.push_back({.ns = std::max(first.end_ns, last.end_ns),
                         .arena_bytes = -slice.bytes});
    }
  }
}

void RunTrace::AddOutputChanges(std::vector<Change>& changes) const {
  if (first_ > 0) return;
  const Plan& plan = binding_.plan();
  for (size_t i = 0; i < steps_of_output_.size(); ++i) {
    int64_t start_ns = -1;
    for (const StepId step : steps_of_output_[i]) {
      const int64_t ns = entries_[step].start_ns;
      if (is_within(step) && ns >= 0 && (start_ns < 0 || ns < start_ns)) {
        start_ns = ns;
      }
    }
    if (start_ns < 0) continue;
    const int index = static_cast<int>(i);
    changes.push_back(
        {.ns = start_ns,
         .outside_bytes = plan.output_type(index).extent_bytes()});
  }
}

void RunTrace::AddCounters(std::vector<Change> changes,
                           std::vector<TraceEvent>& events) {
  // What ends frees its bytes before what begins takes some.
  absl::c_sort(changes, [](const Change& a, const Change& b) {
    return a.ns != b.ns ? a.ns < b.ns : a.arena_bytes < b.arena_bytes;
  });
  for (size_t i = 0; i < changes.size(); ++i) {
    // What came before the trace did isn't known.
    arena_bytes_ = std::max<int64_t>(arena_bytes_ + changes[i].arena_bytes, 0);
    outside_bytes_ += changes[i].outside_bytes;
    if (i + 1 < changes.size() && changes[i + 1].ns == changes[i].ns) continue;
    events.push_back(
        {.kind = TraceEvent::Kind::kCounter,
         .start_ns = changes[i].ns,
         .end_ns = changes[i].ns,
         .name = counter_name_,
         .category = "memory",
         .args = {{"arena", arena_bytes_}, {"outside", outside_bytes_}}});
  }
}

}  // namespace mica
