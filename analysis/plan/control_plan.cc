#include "analysis/plan/control_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"
#include "framework/tensor/tensor.h"

namespace mica {

absl::Status CheckResults(const Program& outer, const Op& op,
                          const Plan& body) {
  for (size_t i = 0; i < op.results.size(); ++i) {
    const TensorType& wanted = outer.type(op.results[i]);
    const TensorType got = body.output_type(static_cast<int>(i));
    if (got == wanted) continue;
    return absl::InternalError(absl::StrCat(
        "a body of ", Describe(op), " gives ", got.ToString(), " for %",
        outer.value(op.results[i]).name, ", which is ", wanted.ToString()));
  }
  return absl::OkStatus();
}

absl::StatusOr<ControlPlan> PlanControl(
    const Program& outer, const Op& op, absl::Span<const int> uses,
    std::vector<std::shared_ptr<const Plan>> bodies) {
  ControlPlan plan{.kind = ControlKindOf(*op.def)};
  int64_t end = 0;
  auto place = [&end](int64_t bytes) {
    return std::exchange(end, end + AlignUp(bytes));
  };
  if (plan.kind == ControlKind::kWhile) {
    plan.predicate_offset = place(ElementBytes(DType::kBool));
    const std::vector<ValueId> operands = BodyOperands(op);
    for (size_t i = 0; i < op.results.size(); ++i) {
      const TensorType& type = outer.type(op.results[i]);
      plan.carried.push_back({.type = type,
                              .initial_type = outer.type(operands[i]),
                              .spare_offset = place(type.extent_bytes())});
      if (uses[op.results[i]] == 0) {
        plan.carried.back().result_offset = place(type.extent_bytes());
      }
    }
  }
  if (plan.kind == ControlKind::kCall) {
    for (ValueId id : op.results) {
      const int64_t bytes = outer.type(id).extent_bytes();
      plan.unread.push_back(uses[id] > 0 ? -1 : place(bytes));
    }
  }
  plan.arena_offset = end;
  for (size_t i = 0; i < bodies.size(); ++i) {
    const bool gives_results = plan.kind != ControlKind::kWhile || i == 1;
    if (gives_results) {
      MICA_RETURN_IF_ERROR(CheckResults(outer, op, *bodies[i]));
    }
    plan.scratch_bytes = std::max(plan.scratch_bytes,
                                  plan.arena_offset + bodies[i]->arena_bytes());
  }
  plan.bodies = std::move(bodies);
  return plan;
}

std::string ControlPlan::ToText() const {
  std::string text;
  for (size_t i = 0; i < bodies.size(); ++i) {
    absl::StrAppend(&text, BodyNames(kind)[i], " at +", arena_offset, ": ",
                    bodies[i]->ToText());
  }
  return text;
}

}  // namespace mica
