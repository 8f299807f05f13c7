#include "tools/pipeline_bench.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "analysis/plan/plan_cache.h"
#include "analysis/schedule/generate.h"
#include "analysis/schedule/plan_pipeline.h"
#include "framework/base/status.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

// A step, its Schedule, and what planning them took, time by time.
struct Pipeline {
  Program program;
  CutOptions cut;
  Schedule schedule;
  std::vector<double> ms;

  double Median() {
    std::sort(ms.begin(), ms.end());
    return ms[ms.size() / 2];
  }
};

absl::StatusOr<Pipeline> MakePipelineOf(const GenerateOptions& generate,
                                        const PipelineOptions& options) {
  Pipeline pipeline;
  MICA_ASSIGN_OR_RETURN(pipeline.program, Generate(generate, AllOps()));
  pipeline.cut = CutOptionsOf(pipeline.program);
  MICA_ASSIGN_OR_RETURN(pipeline.schedule, MakePipeline(options));
  return pipeline;
}

// Without what was planned before.
absl::StatusOr<std::shared_ptr<const PipelinePlan>> PlanAnew(
    Pipeline& pipeline) {
  PlanCache plans(AllOps(), AllKernels());
  const absl::Time start = absl::Now();
  MICA_ASSIGN_OR_RETURN(
      auto plan, PlanPipeline(pipeline.program, pipeline.schedule, pipeline.cut,
                              {}, AllOps(), plans));
  pipeline.ms.push_back(absl::ToDoubleMilliseconds(absl::Now() - start));
  return plan;
}

absl::Status Check(const PipelineBenchOptions& options) {
  MICA_RETURN_IF_ERROR(CheckOptions(options.generate));
  if (options.generate.kind != "transformer_step") {
    return absl::InvalidArgumentError(
        absl::StrCat("--schedule: wants --generate=transformer_step to plan a "
                     "pipeline, got ",
                     options.generate.kind));
  }
  const bool is_in_range =
      options.num_devices >= 1 && options.num_devices <= 1024 &&
      options.num_micro_batches >= 1 && options.num_micro_batches <= 1 << 20;
  if (is_in_range) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--stages and --micro_batches: want 1 to 1024 and 1 to "
                   "2^20, got ",
                   options.num_devices, " and ", options.num_micro_batches));
}

}  // namespace

CutOptions CutOptionsOf(const Program& step) {
  CutOptions cut;
  cut.loss = step.value(step.outputs()[0]).name;
  for (const Update& update : step.updates()) {
    // %new = aten.add.Tensor(%variable, %gradient, alpha=-rate)
    const Op& op = step.ops()[step.value(update.value).index];
    const ValueId gradient = std::get<ValueRef>(op.arguments[1]).id;
    const Variable& variable =
        step.variables()[step.value(update.target).index];
    cut.gradients.push_back({variable.name, step.value(gradient).name});
  }
  return cut;
}

absl::StatusOr<nlohmann::ordered_json> RunPipelineBench(
    const PipelineBenchOptions& options) {
  MICA_RETURN_IF_ERROR(Check(options));
  const std::optional<PipelineKind> kind = ParsePipelineKind(options.schedule);
  if (!kind.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--schedule: wants gpipe, 1f1b, interleaved, zb_h1 or "
                     "zbv, got ",
                     options.schedule));
  }
  const PipelineOptions wanted = {
      .kind = *kind,
      .num_devices = static_cast<int>(options.num_devices),
      .num_micro_batches = static_cast<int>(options.num_micro_batches)};
  MICA_ASSIGN_OR_RETURN(Pipeline all, MakePipelineOf(options.generate, wanted));
  GenerateOptions layers = options.generate;
  layers.layers =
      std::max<int64_t>(1, layers.layers / all.schedule.num_stages());
  MICA_ASSIGN_OR_RETURN(Pipeline one, MakePipelineOf(layers, {}));
  std::shared_ptr<const PipelinePlan> plan;
  for (int64_t i = 0; i < options.repeats; ++i) {
    MICA_RETURN_IF_ERROR(PlanAnew(one).status());
    MICA_ASSIGN_OR_RETURN(plan, PlanAnew(all));
  }
  absl::flat_hash_set<const Plan*> plans;
  for (const PipelinePlan::Stage& stage : plan->stages()) {
    plans.insert(stage.plan.get());
  }
  return nlohmann::ordered_json{
      {"program", all.program.name()},
      {"ops", all.program.ops().size()},
      {"schedule", all.schedule.name},
      {"layers", options.generate.layers},
      {"stages", plan->graph().num_stages()},
      {"micro_batches", plan->graph().num_micro_batches()},
      {"jobs", plan->graph().num_jobs()},
      {"job_classes", plan->stages().size()},
      {"plans", plans.size()},
      {"repeats", options.repeats},
      {"pipeline_ms", all.Median()},
      {"layers_of_stage", layers.layers},
      {"stage_ms", one.Median()},
      {"ratio", all.Median() / one.Median()}};
}

}  // namespace mica
