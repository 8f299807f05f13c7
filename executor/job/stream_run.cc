#include "executor/job/stream_run.h"

#include <cstddef>
#include <utility>

#include "framework/base/status.h"

namespace mica {

StreamRun::StreamRun(const StreamPlan& plan)
    : streams_(plan.num_streams),
      ended_(new std::atomic<uint32_t>[plan.streams.size()]),
      errors_(plan.num_streams),
      failed_at_(plan.num_streams, 0),
      crew_(plan.num_streams) {
  std::vector<Entry> entries(plan.streams.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].step = static_cast<StepId>(i);
    ended_[i].store(0, std::memory_order_relaxed);
  }
  for (const Wait& wait : plan.waits) {
    entries[wait.waiter].waits.push_back(wait.signal);
    entries[wait.signal].is_awaited = true;
  }
  for (Entry& entry : entries) {
    streams_[plan.streams[entry.step]].push_back(std::move(entry));
  }
}

absl::Status StreamRun::Run(const Launch& launch) {
  ++run_;
  has_failed_.store(false, std::memory_order_relaxed);
  MICA_RETURN_IF_ERROR(
      crew_.Run([&](int stream) { RunStream(stream, launch); }));
  if (!has_failed_.load(std::memory_order_relaxed)) return absl::OkStatus();
  size_t first = streams_.size();
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (errors_[i].ok()) continue;
    if (first == streams_.size() || failed_at_[i] < failed_at_[first]) {
      first = i;
    }
  }
  return errors_[first];
}

void StreamRun::RunStream(int stream, const Launch& launch) {
  errors_[stream] = absl::OkStatus();
  for (const Entry& entry : streams_[stream]) {
    for (StepId signal : entry.waits) {
      AwaitChange(ended_[signal], run_ - 1);
    }
    // After an error the rest only lets go of those that wait.
    if (!has_failed_.load(std::memory_order_relaxed)) {
      absl::Status status = launch(entry.step, stream);
      if (!status.ok()) {
        errors_[stream] = std::move(status);
        failed_at_[stream] = entry.step;
        has_failed_.store(true, std::memory_order_relaxed);
      }
    }
    if (!entry.is_awaited) continue;
    ended_[entry.step].store(run_, std::memory_order_release);
    ended_[entry.step].notify_all();
  }
}

}  // namespace mica
