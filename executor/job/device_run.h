// The order of a Plan's steps on a device.

#ifndef MICA_EXECUTOR_JOB_DEVICE_RUN_H_
#define MICA_EXECUTOR_JOB_DEVICE_RUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "analysis/plan/plan.h"
#include "analysis/streams/stream_plan.h"
#include "framework/device/device.h"

namespace mica {

// Queues steps on the device's streams, one for each of the Plan's, with an
// event for each step that another stream waits for; so the host is ahead of
// them. What is queued again with the same addresses becomes a graph, which the
// device queues as one. Single-thread.
class DeviceRun {
 public:
  // The launch of a step. Its addresses stay as they are while `addresses`, a
  // number that grows, is the same.
  using LaunchOf = absl::FunctionRef<DeviceLaunch(StepId)>;

  // `plan` must outlive it.
  static absl::StatusOr<std::unique_ptr<DeviceRun>> Create(
      std::shared_ptr<Device> device, const Plan& plan, bool uses_graphs);
  ~DeviceRun();
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;

  // What the steps do that are queued as one.
  enum class Part : uint8_t { kCompute, kCommit, kBoth };
  // Runs the steps of a part, and returns when they have ended.
  DeviceError Run(Part part, LaunchOf launch_of, uint64_t addresses);

  // The stream that all other ones wait for, and that waits for them.
  StreamId stream() const { return streams_[0]; }
  Device& device() const { return *device_; }
  // How often a graph was queued instead of steps.
  int64_t num_graph_runs() const { return num_graph_runs_; }
  // How long the host was busy with queueing the last run, before it waited.
  absl::Duration queue_time() const { return queue_time_; }

 private:
  // What is known of a part since its addresses changed last.
  struct Recorded {
    uint64_t addresses = 0;
    bool has_run = false;  // With them, step by step.
    std::unique_ptr<DeviceGraph> graph;
  };

  DeviceRun(std::shared_ptr<Device> device, const Plan& plan, bool uses_graphs)
      : device_(std::move(device)), plan_(plan), uses_graphs_(uses_graphs) {}
  // Steps that are queued together, and on which streams.
  struct Stage {
    StepId first = 0, end = 0;
    // By step from `first` on; empty if there is one stream. An event is -1 if
    // nobody waits for it.
    StreamPlan order;
    std::vector<EventId> events;
    std::vector<std::vector<StepId>> waits;
  };

  absl::Status MakeStreams();
  absl::Status MakeEvents(Stage& stage);
  // Each names the step that it couldn't queue.
  DeviceError Queue(Part part, LaunchOf launch_of);
  DeviceError QueueStage(const Stage& stage, LaunchOf launch_of);
  DeviceError QueueStep(const Stage& stage, StepId id, LaunchOf launch_of);
  absl::Status Fork();
  absl::Status Join();
  absl::Status Capture(Part part, LaunchOf launch_of, Recorded& recorded);

  const std::shared_ptr<Device> device_;
  const Plan& plan_;
  const bool uses_graphs_;
  std::vector<StreamId> streams_;
  EventId start_ = -1;
  std::vector<EventId> ends_;  // Of all streams but the first.
  Stage compute_, commit_;
  Recorded recorded_[3];  // By part.
  int64_t num_graph_runs_ = 0;
  absl::Duration queue_time_;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_DEVICE_RUN_H_
