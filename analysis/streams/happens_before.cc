#include "analysis/streams/happens_before.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/streams/byte_map.h"
#include "framework/base/status.h"

namespace mica {
namespace {

constexpr int32_t kNobody = -1;

class RaceFinder {
 public:
  RaceFinder(const StepAccesses& accesses, const StreamPlan& plan)
      : accesses_(accesses),
        plan_(plan),
        clocks_(plan.num_streams,
                std::vector<int32_t>(plan.num_streams, kNobody)),
        at_end_(plan.streams.size()) {}

  absl::Status Run() {
    if (plan_.streams.size() != static_cast<size_t>(accesses_.num_steps())) {
      return absl::InvalidArgumentError(
          absl::StrCat("streams of ", plan_.streams.size(), " steps for ",
                       accesses_.num_steps()));
    }
    std::vector<std::vector<int32_t>> signals(plan_.streams.size());
    std::vector<bool> is_awaited(plan_.streams.size(), false);
    for (const Wait& wait : plan_.waits) {
      const bool fits =
          wait.signal >= 0 && wait.signal < wait.waiter &&
          wait.waiter < accesses_.num_steps() &&
          plan_.streams[wait.signal] != plan_.streams[wait.waiter];
      if (!fits) {
        return absl::InvalidArgumentError(absl::StrCat(
            "step ", wait.waiter, " can't wait for step ", wait.signal));
      }
      signals[wait.waiter].push_back(wait.signal);
      is_awaited[wait.signal] = true;
    }
    for (int32_t step = 0; step < accesses_.num_steps(); ++step) {
      std::vector<int32_t>& clock = clocks_[plan_.streams[step]];
      for (int32_t signal : signals[step]) {
        for (size_t i = 0; i < clock.size(); ++i) {
          clock[i] = std::max(clock[i], at_end_[signal][i]);
        }
      }
      MICA_RETURN_IF_ERROR(CheckStep(step));
      clock[plan_.streams[step]] = step;
      if (is_awaited[step]) at_end_[step] = clock;
    }
    return absl::OkStatus();
  }

 private:
  // The last access of each kind to a piece of memory, on each stream.
  struct LastAccess {
    int32_t writer = kNobody;
    std::vector<std::pair<int32_t, int32_t>> readers;  // Stream, step.
  };

  absl::Status CheckStep(int32_t step) {
    absl::Status status;
    for (const Access& access : accesses_.of(step)) {
      memory_.Visit(
          access.space, access.begin, access.end, [&](LastAccess& last) {
            status.Update(CheckEnded(step, last.writer, access, "written"));
            if (!access.is_write) return;
            for (const auto& [stream, reader] : last.readers) {
              status.Update(CheckEnded(step, reader, access, "read"));
            }
          });
    }
    const int32_t own = plan_.streams[step];
    for (const Access& access : accesses_.of(step)) {
      if (access.is_write) {
        memory_.Set(access.space, access.begin, access.end, {.writer = step});
        continue;
      }
      memory_.Visit(
          access.space, access.begin, access.end, [&](LastAccess& last) {
            if (last.writer == step) return;
            auto it = std::find_if(
                last.readers.begin(), last.readers.end(),
                [&](const auto& reader) { return reader.first == own; });
            if (it == last.readers.end()) {
              last.readers.emplace_back(own, step);
            } else {
              it->second = step;
            }
          });
    }
    return status;
  }

  absl::Status CheckEnded(int32_t step, int32_t other, const Access& access,
                          const char* done) const {
    if (other == kNobody || other == step) return absl::OkStatus();
    const int32_t stream = plan_.streams[step];
    const int32_t other_stream = plan_.streams[other];
    if (clocks_[stream][other_stream] >= other) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(
        "race: step ", step, " on stream ", stream,
        access.is_write ? " writes" : " reads", " bytes ", access.begin, " to ",
        access.end, " of space ", access.space, " that step ", other,
        " on stream ", other_stream, " may not have ", done, " yet"));
  }

  const StepAccesses& accesses_;
  const StreamPlan& plan_;
  std::vector<std::vector<int32_t>> clocks_;  // By stream.
  std::vector<std::vector<int32_t>> at_end_;  // Of steps that are awaited.
  ByteMap<LastAccess> memory_;
};

}  // namespace

absl::Status CheckHappensBefore(const StepAccesses& accesses,
                                const StreamPlan& plan) {
  return RaceFinder(accesses, plan).Run();
}

}  // namespace mica
