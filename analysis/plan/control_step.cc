#include <memory>
#include <utility>
#include <vector>

#include "analysis/passes/origins.h"
#include "analysis/passes/rewrite.h"
#include "analysis/plan/control_plan.h"
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
  const std::vector<Change> inputs = InputsOf(op);
  std::vector<std::shared_ptr<const Plan>> plans;
  for (size_t i = 0; i < op.bodies.size(); ++i) {
    std::shared_ptr<const Plan>& known =
        made_->bodies[{op.bodies[i].get(), Role::kBody, inputs}];
    if (known == nullptr) {
      Planner planner(*this, options, Role::kBody, inputs);
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

std::vector<Planner::Change> Planner::InputsOf(const Op& op) const {
  std::vector<Change> inputs;
  for (ValueId operand : BodyOperands(op)) {
    const bool is_carried = static_cast<int>(inputs.size()) < NumCarried(op);
    Change change = Change::kAlways;
    if (!is_carried && IsFrozen(operand)) change = Change::kFrozen;
    if (!is_carried && IsConstant(operand)) change = Change::kConstant;
    inputs.push_back(change);
  }
  return inputs;
}

std::vector<Planner::Place> Planner::PackForBodies(const Op& op,
                                                   const ControlPlan& control) {
  const std::vector<ValueId> operands = BodyOperands(op);
  std::vector<Place> places;
  for (const auto& body : control.bodies) {
    for (const PackedOperand& packed : body->packed()) {
      Location from = PlaceOf(operands[packed.from.index]).location;
      from.offset += packed.from.offset;
      const int32_t index = AddPacked(/*kernel=*/nullptr, /*operand=*/0,
                                      {.from = from,
                                       .from_bytes = packed.from_bytes,
                                       .bytes = packed.bytes,
                                       .pack = packed.pack});
      places.push_back({.location = {.home = Home::kPacked, .index = index}});
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
