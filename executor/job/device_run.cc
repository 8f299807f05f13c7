#include "executor/job/device_run.h"

#include <utility>

#include "absl/time/clock.h"
#include "analysis/plan/step_facts.h"
#include "analysis/streams/hazards.h"
#include "framework/base/status.h"

namespace mica {

absl::StatusOr<std::unique_ptr<DeviceRun>> DeviceRun::Create(
    std::shared_ptr<Device> device, const Plan& plan, bool uses_graphs) {
  std::unique_ptr<DeviceRun> run(
      new DeviceRun(std::move(device), plan, uses_graphs));
  MICA_RETURN_IF_ERROR(run->MakeStreams());
  return run;
}

absl::Status DeviceRun::MakeStreams() {
  compute_.order = plan_.streams();
  compute_.end = commit_.first = plan_.num_compute();
  commit_.end = static_cast<StepId>(plan_.steps().size());
  const int32_t num_streams = compute_.order.num_streams;
  for (int32_t i = 0; i < num_streams; ++i) {
    MICA_ASSIGN_OR_RETURN(const StreamId stream, device_->CreateStream());
    streams_.push_back(stream);
  }
  if (num_streams == 1) return absl::OkStatus();
  MICA_ASSIGN_OR_RETURN(start_, device_->CreateEvent());
  for (int32_t i = 1; i < num_streams; ++i) {
    MICA_ASSIGN_OR_RETURN(const EventId end_of, device_->CreateEvent());
    ends_.push_back(end_of);
  }
  commit_.order = PlanStreams(
      FindHazards(AccessesOf(plan_, commit_.first, commit_.end)),
      CostsOf(plan_, commit_.first, commit_.end), {.num_streams = num_streams});
  MICA_RETURN_IF_ERROR(MakeEvents(compute_));
  return MakeEvents(commit_);
}

absl::Status DeviceRun::MakeEvents(Stage& stage) {
  stage.events.assign(stage.order.streams.size(), -1);
  stage.waits.resize(stage.order.streams.size());
  for (const Wait& wait : stage.order.waits) {
    stage.waits[wait.waiter].push_back(wait.signal);
    EventId& event = stage.events[wait.signal];
    if (event >= 0) continue;
    MICA_ASSIGN_OR_RETURN(event, device_->CreateEvent());
  }
  return absl::OkStatus();
}

DeviceRun::~DeviceRun() {
  for (Recorded& recorded : recorded_) recorded.graph = nullptr;
  for (StreamId stream : streams_) device_->DestroyStream(stream);
  for (const Stage* stage : {&compute_, &commit_}) {
    for (EventId event : stage->events) {
      if (event >= 0) device_->DestroyEvent(event);
    }
  }
  for (EventId event : ends_) device_->DestroyEvent(event);
  if (start_ >= 0) device_->DestroyEvent(start_);
}

DeviceError DeviceRun::Run(Part part, LaunchOf launch_of, uint64_t addresses) {
  Recorded& recorded = recorded_[static_cast<int>(part)];
  const absl::Time start = absl::Now();
  if (recorded.addresses != addresses) recorded = {.addresses = addresses};
  DeviceError error;
  if (recorded.graph == nullptr && recorded.has_run && uses_graphs_) {
    error.status = Capture(part, launch_of, recorded);
  }
  if (error.status.ok() && recorded.graph != nullptr) {
    ++num_graph_runs_;
    error.status = recorded.graph->Launch(stream());
  } else if (error.status.ok()) {
    error = Queue(part, launch_of);
    recorded.has_run = error.status.ok();
  }
  queue_time_ = absl::Now() - start;
  // What was queued before the error runs all the same.
  DeviceError on_device = device_->Synchronize(stream());
  return error.status.ok() ? on_device : error;
}

absl::Status DeviceRun::Capture(Part part, LaunchOf launch_of,
                                Recorded& recorded) {
  MICA_RETURN_IF_ERROR(device_->BeginCapture(stream()));
  const DeviceError error = Queue(part, launch_of);
  auto graph = device_->EndCapture(stream());
  MICA_RETURN_IF_ERROR(error.status);
  MICA_ASSIGN_OR_RETURN(recorded.graph, std::move(graph));
  return absl::OkStatus();
}

DeviceError DeviceRun::Queue(Part part, LaunchOf launch_of) {
  if (part != Part::kCommit) {
    DeviceError error = QueueStage(compute_, launch_of);
    if (!error.status.ok() || part == Part::kCompute) return error;
  }
  return QueueStage(commit_, launch_of);
}

DeviceError DeviceRun::QueueStage(const Stage& stage, LaunchOf launch_of) {
  const StepId num_steps = stage.end - stage.first;
  const bool is_parallel = streams_.size() > 1 && num_steps > 0;
  DeviceError error;
  if (is_parallel) error.status = Fork();
  for (StepId id = 0; error.status.ok() && id < num_steps; ++id) {
    error = QueueStep(stage, id, launch_of);
  }
  if (!is_parallel) return error;
  // A graph that is being captured wants its streams back in any case.
  const absl::Status joined = Join();
  return error.status.ok() ? DeviceError{.status = joined} : error;
}

DeviceError DeviceRun::QueueStep(const Stage& stage, StepId id,
                                 LaunchOf launch_of) {
  const StepId step = stage.first + id;
  if (streams_.size() == 1) {
    return {device_->Launch(launch_of(step), stream()), step};
  }
  const StreamId stream = streams_[stage.order.streams[id]];
  for (StepId signal : stage.waits[id]) {
    absl::Status status = device_->Wait(stream, stage.events[signal]);
    if (!status.ok()) return {std::move(status), step};
  }
  absl::Status status = device_->Launch(launch_of(step), stream);
  if (status.ok() && stage.events[id] >= 0) {
    status = device_->Record(stage.events[id], stream);
  }
  return {std::move(status), step};
}

absl::Status DeviceRun::Fork() {
  MICA_RETURN_IF_ERROR(device_->Record(start_, stream()));
  for (size_t i = 1; i < streams_.size(); ++i) {
    MICA_RETURN_IF_ERROR(device_->Wait(streams_[i], start_));
  }
  return absl::OkStatus();
}

absl::Status DeviceRun::Join() {
  for (size_t i = 1; i < streams_.size(); ++i) {
    MICA_RETURN_IF_ERROR(device_->Record(ends_[i - 1], streams_[i]));
    MICA_RETURN_IF_ERROR(device_->Wait(stream(), ends_[i - 1]));
  }
  return absl::OkStatus();
}

}  // namespace mica
