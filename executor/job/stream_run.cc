#include "executor/job/stream_run.h"

#include <cstddef>
#include <utility>

#include "framework/base/status.h"
#include "kernels/cpu/team_size.h"

namespace mica {

StreamRun::StreamRun(const StreamPlan& plan, int team_size)
    : team_size_(team_size),
      streams_(plan.num_streams),
      ended_(new std::atomic<uint32_t>[plan.streams.size()]),
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

absl::Status StreamRun::Run(const Launch& launch, Outcome& outcome) {
  ++run_;
  const std::function<void()> look = [&] { outcome.must_end(); };
  MICA_RETURN_IF_ERROR(
      crew_.Run([&](int stream) { RunStream(stream, launch, outcome); },
                outcome.is_interruptible() ? look : nullptr));
  return outcome.status();
}

void StreamRun::RunStream(int stream, const Launch& launch, Outcome& outcome) {
  const cpu::TeamSize size(team_size_);
  for (const Entry& entry : streams_[stream]) {
    for (StepId signal : entry.waits) {
      // The caller may be who can answer an interrupt.
      if (stream == 0 && outcome.is_interruptible()) {
        AwaitChange(ended_[signal], run_ - 1, [&] { outcome.must_end(); });
      } else {
        AwaitChange(ended_[signal], run_ - 1);
      }
    }
    // After an error the rest only lets go of those that wait.
    if (!outcome.must_end()) {
      absl::Status status = launch(entry.step, stream);
      if (!status.ok()) outcome.Fail(std::move(status));
    }
    if (!entry.is_awaited) continue;
    ended_[entry.step].store(run_, std::memory_order_release);
    ended_[entry.step].notify_all();
  }
}

}  // namespace mica
