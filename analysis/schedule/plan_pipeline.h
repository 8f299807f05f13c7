// From a Program and a Schedule to what runs.

#ifndef MICA_ANALYSIS_SCHEDULE_PLAN_PIPELINE_H_
#define MICA_ANALYSIS_SCHEDULE_PLAN_PIPELINE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "analysis/plan/plan_cache.h"
#include "analysis/schedule/cut.h"
#include "analysis/schedule/pipeline_plan.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"
#include "framework/schedule/schedule.h"

namespace mica {

// Cuts `program` for the stages and devices of `schedule`, plans each stage and
// joins them; what the Program returns is fetched. Of `cut` the Schedule gives
// num_stages, device_of_stage, split_backward and reduce. Where updates want
// reducing Jobs that the Schedule hasn't got, these take the updates' places,
// and the updates are each device's last Jobs.
//
// Errors as JobGraph::Build(), CutIntoStages(), Plan::Build() and
// PipelinePlan::Build(), and InvalidArgument where the Schedule has backward
// passes and the Program hasn't.
absl::StatusOr<std::shared_ptr<const PipelinePlan>> PlanPipeline(
    const Program& program, const Schedule& schedule, CutOptions cut,
    const PlanOptions& options, const OpRegistry& registry, PlanCache& plans);

// For people: by device its memory between Jobs, by class of Jobs the steps of
// its Plan, what it receives and sends, and which variables it reads that
// another device updates.
//
//   device 0: 4 values live between Jobs at most, 512 bytes; arena 512 bytes
//     forward(0): 5 steps
//       sends to device 1: %"h to 1", f32[4,8], 128 bytes
std::string ToText(const PipelinePlan& plan);

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_PLAN_PIPELINE_H_
