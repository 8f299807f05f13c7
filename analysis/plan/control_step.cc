#include <memory>
#include <utility>
#include <vector>

#include "analysis/passes/rewrite.h"
#include "analysis/plan/control_plan.h"
#include "analysis/plan/origins.h"
#include "analysis/plan/planner.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {

absl::StatusOr<std::vector<std::shared_ptr<const Plan>>> Planner::PlanBodies(
    OpId id) {
  const Op& op = program().ops()[id];
  PlanOptions options = options_;
  // The op as a whole is one step of one stream, or of a queue's worker.
  options.num_streams = 1;
  options.queue = false;
  options.num_threads = options_.has_queue() ? 1 : options_.num_threads;
  std::vector<bool> frozen;
  for (ValueId operand : BodyOperands(op)) {
    const bool is_carried = static_cast<int>(frozen.size()) < NumCarried(op);
    frozen.push_back(!is_carried && IsFrozen(operand));
  }
  std::vector<std::shared_ptr<const Plan>> plans;
  for (size_t i = 0; i < op.bodies.size(); ++i) {
    std::shared_ptr<const Plan>& known =
        (*body_plans_)[{op.bodies[i].get(), frozen}];
    if (known == nullptr) {
      Planner planner(ops_, kernels_, options);
      planner.set_frozen_inputs(frozen);
      planner.body_plans_ = body_plans_;
      if (choices_ != nullptr) planner.selector_.set_only(choices_->kernels);
      absl::StatusOr<std::shared_ptr<const Plan>> plan =
          planner.Run(op.bodies[i], OriginsOf(*op.bodies[i]));
      if (!plan.ok()) {
        return Annotate(plan.status(), BodyNames(ControlKindOf(*op.def))[i]);
      }
      known = *std::move(plan);
    }
    plans.push_back(known);
  }
  return plans;
}

std::vector<Planner::Place> Planner::PackForBodies(const Op& op,
                                                   const ControlPlan& control) {
  const std::vector<ValueId> operands = BodyOperands(op);
  std::vector<Place> places;
  for (const auto& body : control.bodies) {
    for (const PackedOperand& packed : body->packed()) {
      Location from = PlaceOf(operands[packed.from.index]).location;
      from.offset += packed.from.offset;
      plan_->packed_.push_back({.from = from,
                                .from_bytes = packed.from_bytes,
                                .bytes = packed.bytes,
                                .pack = packed.pack});
      places.push_back(
          {.location = {.home = Home::kPacked,
                        .index = static_cast<int>(plan_->packed_.size()) - 1}});
    }
  }
  return places;
}

absl::Status Planner::AddControlStep(OpId id) {
  const Op& op = program().ops()[id];
  MICA_ASSIGN_OR_RETURN(auto bodies, PlanBodies(id));
  MICA_ASSIGN_OR_RETURN(
      ControlPlan control,
      PlanControl(program(), op, reads_.uses, std::move(bodies)));
  auto prepared = std::make_shared<Prepared>();
  prepared->scratch_bytes = control.scratch_bytes;
  Step step{.name = op.def->name(),
            .kernel = "control",
            .prepared = prepared,
            .control = std::make_shared<ControlPlan>(std::move(control)),
            .op = id};
  const std::vector<ValueId> operands = OperandsOf(op);
  std::vector<Place> places;
  for (ValueId operand : operands) places.push_back(PlaceOf(operand));
  for (const Place& packed : PackForBodies(op, *step.control)) {
    places.push_back(packed);
  }
  AddArgs(step, places, PlaceResults(op, *prepared, operands));
  plan_->steps_.push_back(std::move(step));
  return absl::OkStatus();
}

}  // namespace mica
