#include "executor/schedule/schedule_runner.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "analysis/schedule/draw.h"
#include "executor/binding/binding.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"
#include "glog/logging.h"

namespace mica {
namespace {

absl::Status CheckFeeds(absl::string_view whose,
                        absl::Span<const PipelinePlan::Feed> wanted,
                        const NamedViews& feeds) {
  for (const PipelinePlan::Feed& feed : wanted) {
    const auto it = feeds.find(feed.name);
    const std::string name = absl::StrCat(whose, ": feed \"", feed.name, "\"");
    if (it == feeds.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is missing: wants ", feed.type.ToString()));
    }
    MICA_RETURN_IF_ERROR(CheckFed(name, feed.type, it->second.type));
  }
  for (const auto& [name, view] : feeds) {
    if (absl::c_any_of(wanted, [&name = name](const PipelinePlan::Feed& feed) {
          return feed.name == name;
        })) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(whose, ": feed \"", name, "\" is for no input"));
  }
  return absl::OkStatus();
}

// Makes a sum that has nothing in it yet: adding to it gives what is added, bit
// for bit. In floating-point numbers that is minus zero.
void FillWithNothing(const TensorView& sum) {
  const size_t bytes = sum.type.extent_bytes();
  auto* data = static_cast<uint8_t*>(sum.data);
  std::memset(data, 0, bytes);
  const DType dtype = RealDType(sum.type.dtype);
  if (!IsFloating(dtype)) return;
  const size_t element = ElementBytes(dtype);
  // Little-endian: the sign is in an element's last byte.
  for (size_t i = element - 1; i < bytes; i += element) data[i] = 0x80;
}

absl::Status PinThread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  const int error = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  if (error == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("CPU ", cpu, " can't be used: ", std::strerror(error)));
}

}  // namespace

struct ScheduleRunner::RunState {
  absl::Span<const NamedViews> feeds;
  const NamedViews& update_feeds;
  Results& results;
  JobGate& gate;
  int64_t start_ns = 0;
  bool is_traced = false;
};

absl::StatusOr<std::unique_ptr<ScheduleRunner>> ScheduleRunner::Create(
    std::shared_ptr<const PipelinePlan> plan, const NamedViews& variables,
    const ScheduleRunnerOptions& options) {
  const size_t num_devices = plan->graph().num_devices();
  if (!options.cpus.empty() && options.cpus.size() != num_devices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wants ", num_devices, " CPUs, got ", options.cpus.size()));
  }
  for (const int cpu : options.cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) continue;
    return absl::InvalidArgumentError(absl::StrCat("CPU ", cpu));
  }
  std::unique_ptr<ScheduleRunner> runner(new ScheduleRunner(std::move(plan)));
  runner->options_ = options;
  MICA_RETURN_IF_ERROR(runner->BindVariables(variables));
  MICA_RETURN_IF_ERROR(runner->AllocateArenas());
  return runner;
}

absl::Status ScheduleRunner::BindVariables(const NamedViews& variables) {
  std::vector<TensorView> views;
  for (const PipelinePlan::SharedVariable& variable : plan_->variables()) {
    const std::string name = absl::StrCat("variable \"", variable.name, "\"");
    TensorView target = {.type = variable.type};
    if (!variable.is_accumulator) {
      const auto it = variables.find(variable.name);
      if (it == variables.end()) {
        return absl::NotFoundError(absl::StrCat(name, " has no value: wants ",
                                                variable.type.ToString()));
      }
      MICA_RETURN_IF_ERROR(CheckFed(name, variable.type, it->second.type));
      target = it->second;
    }
    if (variable.is_accumulator || variable.is_written) {
      MICA_ASSIGN_OR_RETURN(Tensor working, Tensor::Allocate(variable.type));
      views.push_back(working.view());
      written_.push_back({.working = std::move(working), .target = target});
    } else {
      views.push_back(target);
    }
  }
  for (const PipelinePlan::Stage& stage : plan_->stages()) {
    std::vector<TensorView> bound;
    for (const int variable : stage.variables) bound.push_back(views[variable]);
    auto binding = Binding::Create(stage.plan, bound, stage.program);
    MICA_RETURN_IF_ERROR(Annotate(binding.status(), Describe(stage.jobs)));
    MICA_ASSIGN_OR_RETURN(auto job, Job::Create(*std::move(binding)));
    jobs_.push_back(std::move(job));
  }
  return absl::OkStatus();
}

absl::Status ScheduleRunner::AllocateArenas() {
  for (const DeviceMemory& memory : plan_->value_plan().devices()) {
    MICA_ASSIGN_OR_RETURN(Buffer arena, Buffer::Allocate(memory.arena_bytes));
    arenas_.push_back(std::move(arena));
  }
  fetch_of_value_.assign(plan_->values().size(), -1);
  for (const PipelinePlan::Stage& stage : plan_->stages()) {
    for (const PipelinePlan::Port& port : stage.outputs) {
      fetch_of_value_[port.value] = port.fetch;
    }
  }
  spans_.resize(plan_->graph().num_jobs());
  return absl::OkStatus();
}

absl::StatusOr<ScheduleRunner::Results> ScheduleRunner::AllocateResults()
    const {
  Results results(plan_->graph().num_micro_batches());
  for (std::vector<Tensor>& tensors : results) {
    for (const TensorType& type : plan_->fetches()) {
      MICA_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
      tensors.push_back(std::move(tensor));
    }
  }
  return results;
}

void ScheduleRunner::StartVariables() {
  for (const Written& written : written_) {
    if (written.target.data == nullptr) {
      FillWithNothing(written.working.view());
    } else {
      CopyElements(written.target, written.working.view());
    }
  }
}

absl::StatusOr<std::vector<std::vector<Tensor>>> ScheduleRunner::Run(
    absl::Span<const NamedViews> feeds, const NamedViews& update_feeds) {
  const JobGraph& graph = plan_->graph();
  if (static_cast<int>(feeds.size()) != graph.num_micro_batches()) {
    return absl::InvalidArgumentError(
        absl::StrCat("wants feeds of ", graph.num_micro_batches(),
                     " micro-batches, got ", feeds.size()));
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    MICA_RETURN_IF_ERROR(
        CheckFeeds(absl::StrCat("micro-batch ", i), plan_->feeds(), feeds[i]));
  }
  MICA_RETURN_IF_ERROR(
      CheckFeeds("updates", plan_->update_feeds(), update_feeds));
  MICA_ASSIGN_OR_RETURN(Results results, AllocateResults());
  StartVariables();
  absl::c_fill(spans_, JobSpan());
  const TraceSpan span("run", "schedule");
  tracks_.assign(graph.num_devices(), 0);

  JobGate gate(graph);
  {
    const std::lock_guard lock(mutex_);
    gate_ = &gate;
  }
  const RunState state = {.feeds = feeds,
                          .update_feeds = update_feeds,
                          .results = results,
                          .gate = gate,
                          .start_ns = TraceNow(),
                          .is_traced = span.is_on()};
  std::vector<std::thread> threads;
  for (int device = 0; device < graph.num_devices(); ++device) {
    threads.emplace_back([&, device] { RunDevice(device, state); });
  }
  for (std::thread& thread : threads) thread.join();
  {
    const std::lock_guard lock(mutex_);
    gate_ = nullptr;
  }
  MICA_RETURN_IF_ERROR(gate.status());
  if (span.is_on()) RecordTimeline(state);
  for (const Written& written : written_) {
    if (written.target.data == nullptr) continue;
    CopyElements(written.working.view(), written.target);
  }
  ShareResults(results);
  return results;
}

void ScheduleRunner::ShareResults(Results& results) const {
  for (const PipelinePlan::Stage& stage : plan_->stages()) {
    if (!IsForAllMicroBatches(stage.jobs.type)) continue;
    for (const PipelinePlan::Port& port : stage.outputs) {
      if (port.fetch < 0) continue;
      for (size_t i = 1; i < results.size(); ++i) {
        CopyElements(results[0][port.fetch].view(),
                     results[i][port.fetch].view());
      }
    }
  }
}

void ScheduleRunner::RecordTimeline(const RunState& state) const {
  std::vector<TraceEvent> events;
  AppendTimeline(plan_->graph(), timeline(), /*unit_ns=*/1000, state.start_ns,
                 tracks_, events);
  RecordEvents(std::move(events));
}

void ScheduleRunner::RunDevice(int device, const RunState& state) {
  NameThisThread(absl::StrCat("device ", device));
  if (state.is_traced) tracks_[device] = ThisThreadTrack();
  if (!options_.cpus.empty()) {
    if (absl::Status status = PinThread(options_.cpus[device]); !status.ok()) {
      state.gate.Fail(Annotate(status, absl::StrCat("device ", device)));
      return;
    }
  }
  const JobGraph& graph = plan_->graph();
  const auto now_us = [&] {
    return static_cast<double>(TraceNow() - state.start_ns) / 1000;
  };
  for (JobId id = graph.begin(device); id < graph.end(device); ++id) {
    if (!state.gate.WaitForInputs(id)) return;
    spans_[id].start = now_us();
    const auto run = [&] { return RunJob(id, state); };
    const absl::Status status =
        options_.around_job ? options_.around_job(graph.job(id), run) : run();
    if (!status.ok()) {
      state.gate.Fail(Annotate(status, absl::StrCat(graph.job(id).ToString(),
                                                    " on device ", device)));
      return;
    }
    spans_[id].end = now_us();
    state.gate.MarkEnded(id);
  }
  if (!state.gate.WaitForAll()) return;
  for (JobId id = graph.begin(device); id < graph.end(device); ++id) {
    if (graph.job(id).type != JobType::kUpdate) continue;
    // What could fail has been computed: see Plan::num_compute().
    const absl::Status status = jobs_[plan_->stage_index(id)]->Commit();
    CHECK(status.ok()) << status.ToString();
  }
}

absl::Status ScheduleRunner::RunJob(JobId id, const RunState& state) {
  const PipelinePlan::Stage& stage = plan_->stage(id);
  const int batch = plan_->graph().job(id).micro_batch;
  Job& job = *jobs_[plan_->stage_index(id)];
  for (size_t i = 0; i < stage.inputs.size(); ++i) {
    const PipelinePlan::Port& port = stage.inputs[i];
    void* data;
    if (port.value >= 0) {
      data = AddressOf(port.value, batch, state);
    } else if (IsForAllMicroBatches(stage.jobs.type)) {
      data = state.update_feeds.at(plan_->update_feeds()[port.feed].name).data;
    } else {
      data = state.feeds[batch].at(plan_->feeds()[port.feed].name).data;
    }
    job.SetInput(static_cast<int>(i), data);
  }
  for (size_t i = 0; i < stage.outputs.size(); ++i) {
    job.SetOutput(static_cast<int>(i),
                  AddressOf(stage.outputs[i].value, batch, state));
  }
  return stage.jobs.type == JobType::kUpdate ? job.Compute() : job.Run();
}

void* ScheduleRunner::AddressOf(int value, int micro_batch,
                                const RunState& state) const {
  if (const int fetch = fetch_of_value_[value]; fetch >= 0) {
    return state.results[std::max(micro_batch, 0)][fetch].data();
  }
  const int stage = plan_->values()[value].producer.stage;
  const int device = plan_->graph().device_of_stage()[stage];
  return static_cast<char*>(arenas_[device].data()) +
         plan_->value_plan().offset(value, std::max(micro_batch, 0));
}

void ScheduleRunner::Cancel() {
  const std::lock_guard lock(mutex_);
  if (gate_ != nullptr) gate_->Fail(absl::CancelledError("the run"));
}

Timeline ScheduleRunner::timeline() const {
  return MakeTimeline(plan_->graph(), spans_);
}

}  // namespace mica
