#include "executor/job/job.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/base/status.h"
#include "kernels/cpu/team_size.h"

namespace mica {

absl::StatusOr<std::unique_ptr<Job>> Job::Create(
    std::shared_ptr<const Binding> binding) {
  const Plan& plan = binding->plan();
  std::unique_ptr<Job> job(new Job);
  MICA_ASSIGN_OR_RETURN(job->arena_, Buffer::Allocate(plan.arena_bytes()));
  job->binding_ = std::move(binding);
  job->args_.resize(plan.args().size());
  job->inputs_.resize(plan.program().inputs().size());
  job->variables_.resize(plan.program().variables().size());
  job->outputs_.resize(plan.program().outputs().size());
  job->FillArgs();
  for (const Step& step : plan.steps()) {
    const Prepared& prepared = *step.prepared;
    Launch launch{.fn = prepared.launch,
                  .state = prepared.state.get(),
                  .args = job->args_.data() + step.first_arg};
    if (prepared.make_instance != nullptr) {
      job->instances_.push_back(prepared.make_instance());
      launch.state = job->instances_.back().get();
    }
    job->launches_.push_back(launch);
  }
  job->contexts_.resize(plan.streams().num_streams);
  if (plan.streams().num_streams > 1) {
    job->streams_ = std::make_unique<StreamRun>(plan.streams());
  }
  return job;
}

void Job::FillArgs() {
  const Plan& plan = binding_->plan();
  for (size_t i = 0; i < args_.size(); ++i) {
    const Location& location = plan.args()[i];
    void** arg = &args_[i];
    const Anchor::Use use{.arg = arg, .offset = location.offset};
    switch (location.home) {
      case Home::kNone:
        break;
      case Home::kArena:
        *arg = static_cast<char*>(arena_.data()) + location.offset;
        break;
      case Home::kConstant:
        *arg = const_cast<char*>(
            static_cast<const char*>(plan.constant(location.index)) +
            location.offset);
        break;
      case Home::kPacked:
        *arg = binding_->packed(location.index);
        break;
      case Home::kFolded:
        *arg = static_cast<char*>(binding_->folded(location.index)) +
               location.offset;
        break;
      case Home::kInput:
        inputs_[location.index].uses.push_back(use);
        break;
      case Home::kVariable:
        variables_[location.index].uses.push_back(use);
        break;
      case Home::kOutput:
        outputs_[location.index].uses.push_back(use);
        break;
    }
  }
  for (size_t i = 0; i < variables_.size(); ++i) {
    variables_[i].Set(binding_->variable(static_cast<int>(i)));
  }
}

absl::Status Job::ErrorOf(StepId id, absl::Status status) const {
  const Step& step = plan().steps()[id];
  std::string where = absl::StrCat("step ", id, ", ", step.name);
  const SourceLine& source = binding_->SourceOf(step);
  if (source.line != 0) {
    absl::StrAppend(&where, " (", source.ToString(), ")");
  }
  return Annotate(status, where);
}

absl::Status Job::RunSteps(StepId begin, StepId end) {
  const cpu::TeamSize team(plan().num_threads());
  LaunchContext& context = contexts_[0];
  for (StepId id = begin; id < end; ++id) {
    const Launch& launch = launches_[id];
    if (launch.fn(launch.state, launch.args, context)) continue;
    return ErrorOf(id, std::exchange(context.status, absl::OkStatus()));
  }
  return absl::OkStatus();
}

absl::Status Job::RunStep(StepId id, int stream) {
  const cpu::TeamSize team(plan().num_threads());
  const Launch& launch = launches_[id];
  LaunchContext& context = contexts_[stream];
  if (launch.fn(launch.state, launch.args, context)) return absl::OkStatus();
  return ErrorOf(id, std::exchange(context.status, absl::OkStatus()));
}

absl::Status Job::Compute() {
  if (streams_ == nullptr) return RunSteps(0, plan().num_compute());
  return streams_->Run(
      [this](StepId id, int stream) { return RunStep(id, stream); });
}

absl::Status Job::Commit() {
  return RunSteps(plan().num_compute(),
                  static_cast<StepId>(plan().steps().size()));
}

absl::Status Job::Run() {
  MICA_RETURN_IF_ERROR(Compute());
  return Commit();
}

absl::StatusOr<std::vector<Job::StepTime>> Job::Trace() {
  const auto num_steps = static_cast<StepId>(plan().steps().size());
  std::vector<StepTime> times(num_steps);
  const absl::Time start = absl::Now();
  auto now = [&] { return absl::ToDoubleMicroseconds(absl::Now() - start); };
  auto run = [&](StepId id, int stream) {
    times[id] = {.step = id, .stream = stream, .start_us = now()};
    const absl::Status status = RunStep(id, stream);
    times[id].end_us = now();
    return status;
  };
  if (streams_ != nullptr) MICA_RETURN_IF_ERROR(streams_->Run(run));
  const StepId begin = streams_ != nullptr ? plan().num_compute() : 0;
  for (StepId id = begin; id < num_steps; ++id) {
    MICA_RETURN_IF_ERROR(run(id, 0));
  }
  return times;
}

}  // namespace mica
