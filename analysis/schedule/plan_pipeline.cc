#include "analysis/schedule/plan_pipeline.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

// `op` is mica.send or mica.receive, `message` what it makes or takes.
void AppendMessage(const Program& program, const Op& op, ValueId message,
                   absl::string_view verb, std::string* out) {
  const TensorType& type = program.type(message);
  absl::StrAppend(out, "    ", verb, std::get<int64_t>(op.arguments[1]),
                  ": %\"", program.value(message).name, "\", ", type.ToString(),
                  ", ", type.extent_bytes(), " bytes\n");
}

// By variable, the device whose update writes it; -1 for none.
std::vector<int> UpdatingDevices(const PipelinePlan& plan) {
  std::vector<int> devices(plan.variables().size(), -1);
  for (const PipelinePlan::Stage& stage : plan.stages()) {
    if (stage.jobs.type != JobType::kUpdate) continue;
    for (const Update& update : stage.program->updates()) {
      const int index = stage.program->value(update.target).index;
      devices[stage.variables[index]] =
          plan.graph().device_of_stage()[stage.jobs.stage];
    }
  }
  return devices;
}

// The variables that it reads where another device keeps and updates them.
void AppendSharedVariables(const PipelinePlan& plan,
                           const PipelinePlan::Stage& stage,
                           absl::Span<const int> updating_devices,
                           std::string* out) {
  const int device = plan.graph().device_of_stage()[stage.jobs.stage];
  for (const int variable : stage.variables) {
    const int home = updating_devices[variable];
    if (home < 0 || home == device) continue;
    const PipelinePlan::SharedVariable& shared = plan.variables()[variable];
    absl::StrAppend(out, "    reads of device ", home, ": variable \"",
                    shared.name, "\", ", shared.type.ToString(), ", ",
                    shared.type.extent_bytes(), " bytes\n");
  }
}

void AppendStage(const PipelinePlan::Stage& stage, std::string* out) {
  absl::StrAppend(out, "  ", Describe(stage.jobs), ": ",
                  stage.plan->steps().size(), " steps\n");
  const Program& program = *stage.program;
  for (const Op& op : program.ops()) {
    if (op.def->name() == "mica.receive") {
      AppendMessage(program, op, std::get<ValueRef>(op.arguments[0]).id,
                    "receives from device ", out);
    } else if (op.def->name() == "mica.send") {
      AppendMessage(program, op, op.results[0], "sends to device ", out);
    }
  }
}

bool HasJob(const Schedule& schedule, JobType type) {
  return absl::c_any_of(schedule.devices, [type](const auto& jobs) {
    return absl::c_any_of(
        jobs, [type](const ScheduledJob& job) { return job.type == type; });
  });
}

// Where updates were, reductions; the updates at the end. Nobody but these
// reads what they make, and no variable changes before all have run.
Schedule WithReductions(Schedule schedule) {
  for (std::vector<ScheduledJob>& jobs : schedule.devices) {
    std::vector<ScheduledJob> updates;
    for (ScheduledJob& job : jobs) {
      if (job.type != JobType::kUpdate) continue;
      updates.push_back(job);
      job.type = JobType::kReduce;
    }
    jobs.insert(jobs.end(), updates.begin(), updates.end());
  }
  return schedule;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PipelinePlan>> PlanPipeline(
    const Program& program, const Schedule& schedule, CutOptions cut,
    const PlanOptions& options, const OpRegistry& registry, PlanCache& plans) {
  const TraceSpan span("analysis", "plan pipeline of @", program.name());
  MICA_RETURN_IF_ERROR(JobGraph::Build(schedule).status());
  cut.num_stages = schedule.num_stages();
  cut.device_of_stage = schedule.device_of_stage;
  cut.split_backward = HasJob(schedule, JobType::kBackwardInput);
  cut.reduce = HasJob(schedule, JobType::kReduce);
  MICA_ASSIGN_OR_RETURN(CutProgram made, CutIntoStages(program, cut, registry));
  const bool wants_backward =
      cut.split_backward || HasJob(schedule, JobType::kBackward);
  if (wants_backward && absl::c_all_of(made.stages, [](const auto& stage) {
        return stage.jobs.type == JobType::kForward;
      })) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule @", schedule.name, " runs backward passes, but program @",
        program.name(), " tells of no backward op and no gradient"));
  }
  std::vector<StagePlan> stages;
  for (CutProgram::Stage& stage : made.stages) {
    auto shared = std::make_shared<const Program>(std::move(stage.program));
    auto plan = plans.Get(shared, options);
    MICA_RETURN_IF_ERROR(Annotate(plan.status(), Describe(stage.jobs)));
    stages.push_back({.jobs = stage.jobs,
                      .program = std::move(shared),
                      .plan = *std::move(plan)});
  }
  const bool adds_reductions =
      !cut.reduce && absl::c_any_of(made.stages, [](const auto& stage) {
        return stage.jobs.type == JobType::kReduce;
      });
  return PipelinePlan::Build(
      adds_reductions ? WithReductions(schedule) : schedule, std::move(stages),
      {.fetches = made.fetches, .accumulators = made.accumulators});
}

std::string ToText(const PipelinePlan& plan) {
  std::string out;
  const JobGraph& graph = plan.graph();
  const std::vector<int> updating_devices = UpdatingDevices(plan);
  for (int device = 0; device < graph.num_devices(); ++device) {
    const DeviceMemory& memory = plan.value_plan().devices()[device];
    absl::StrAppend(&out, "device ", device, ": ", memory.peak_values,
                    " values live between Jobs at most, ", memory.peak_bytes,
                    " bytes; arena ", memory.arena_bytes, " bytes\n");
    for (const PipelinePlan::Stage& stage : plan.stages()) {
      if (graph.device_of_stage()[stage.jobs.stage] == device) {
        AppendStage(stage, &out);
        AppendSharedVariables(plan, stage, updating_devices, &out);
      }
    }
  }
  return out;
}

}  // namespace mica
