#include "executor/watch/stall_watch.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"

namespace mica {
namespace {

constexpr int kMostListed = 8;

// For each step what it waits for: by the queue, by streams, or in order.
std::vector<std::vector<StepId>> WaitsOf(const Plan& plan) {
  std::vector<std::vector<StepId>> before(plan.num_compute());
  if (const QueuePlan& queue = plan.queue(); queue.num_workers > 1) {
    for (StepId step = 0; step < queue.num_steps(); ++step) {
      for (StepId other : queue.after(step)) before[other].push_back(step);
    }
    return before;
  }
  const StreamPlan& streams = plan.streams();
  std::vector<StepId> last(streams.num_streams, -1);
  for (StepId step = 0; step < plan.num_compute(); ++step) {
    const int stream = streams.num_streams > 1 ? streams.streams[step] : 0;
    if (last[stream] >= 0) before[step].push_back(last[stream]);
    last[stream] = step;
  }
  for (const Wait& wait : streams.waits) {
    before[wait.waiter].push_back(wait.signal);
  }
  return before;
}

}  // namespace

StallWatch::StallWatch(const Plan& plan, StallWatchOptions options)
    : options_(std::move(options)),
      num_compute_(plan.num_compute()),
      before_(WaitsOf(plan)),
      states_(new std::atomic<int32_t>[plan.steps().size()]) {
  thread_ = std::thread([this] { Watch(); });
}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StallWatch::BeforeRun(const Job& job) {
  for (StepId step = 0; step < num_compute_; ++step) states_[step] = kWaits;
  ++num_events_;
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
  }
  changed_.notify_all();
}

void StallWatch::AfterRun(const absl::Status&) {
  const std::lock_guard lock(mutex_);
  job_ = nullptr;
}

absl::Status StallWatch::BeforeStep(StepId step, int worker) {
  states_[step] = worker;
  ++num_events_;
  return absl::OkStatus();
}

void StallWatch::AfterStep(StepId step, int) {
  states_[step] = kEnded;
  ++num_events_;
}

void StallWatch::Watch() {
  std::unique_lock lock(mutex_);
  int64_t seen = -1, told = -1;
  while (!is_over_) {
    if (job_ == nullptr) {
      changed_.wait(lock, [&] { return is_over_ || job_ != nullptr; });
      seen = num_events_;
    }
    changed_.wait_for(lock, absl::ToChronoNanoseconds(options_.patience),
                      [&] { return is_over_; });
    if (is_over_ || job_ == nullptr) continue;
    const int64_t now = num_events_;
    if (now != std::exchange(seen, now) || now == told) continue;
    told = now;
    const std::string report = Describe();
    if (options_.report != nullptr) {
      options_.report(report);
    } else {
      LOG(ERROR) << report;
    }
  }
}

std::string StallWatch::Describe() const {
  std::vector<std::string> running, waiting;
  int num_waiting = 0;
  for (StepId step = 0; step < num_compute_; ++step) {
    const int32_t state = states_[step];
    if (state >= 0) {
      running.push_back(absl::StrCat(job_->NameOf(step), " on ", state));
    }
    if (state != kWaits || ++num_waiting > kMostListed) continue;
    std::vector<StepId> unmet;
    for (StepId other : before_[step]) {
      if (states_[other] != kEnded) unmet.push_back(other);
    }
    waiting.push_back(absl::StrCat(
        job_->NameOf(step),
        unmet.empty() ? " for a worker"
                      : absl::StrCat(" for ", absl::StrJoin(unmet, ", "))));
  }
  return absl::StrCat(
      "no step has started or ended for ",
      absl::FormatDuration(options_.patience),
      "; running: ", running.empty() ? "none" : absl::StrJoin(running, "; "),
      "; waiting: ", waiting.empty() ? "none" : absl::StrJoin(waiting, "; "),
      num_waiting > kMostListed
          ? absl::StrCat("; and ", num_waiting - kMostListed, " more")
          : "");
}

}  // namespace mica
