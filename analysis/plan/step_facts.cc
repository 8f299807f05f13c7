#include "analysis/plan/step_facts.h"

#include <algorithm>
#include <numeric>

#include "analysis/cost/op_work.h"
#include "analysis/plan/control_plan.h"
#include "framework/ir/control_flow.h"
#include "framework/kernel/kernel.h"

namespace mica {
namespace {

// What one core does, about: a launch, bytes from the caches, products.
constexpr double kNanosecondsOfLaunch = 30;
constexpr double kBytesPerNanosecond = 16;
constexpr double kFlopsPerNanosecond = 80;

constexpr int32_t kWorld = -1;

bool IsAtens(const Plan& plan, const Step& step) {
  if (step.kernel == kAtenKernel) return true;
  const Op* op = plan.op(step);
  return op != nullptr && IsOpaque(*op);
}

bool HasMemory(Home home) {
  return home == Home::kArena || home == Home::kInput ||
         home == Home::kVariable || home == Home::kOutput;
}

int32_t SpaceOf(const Location& location) {
  constexpr int32_t kNumHomes = static_cast<int32_t>(Home::kFolded) + 1;
  const int32_t index = location.home == Home::kArena ? 0 : location.index;
  return index * kNumHomes + static_cast<int32_t>(location.home);
}

bool StepHasEffect(const Plan& plan, const Step& step) {
  const Op* op = plan.op(step);
  return op != nullptr && (HasEffect(*op) || IsOpaque(*op));
}

// Of one round of a loop; of a branch the dearer body. How many rounds there
// will be, nobody knows.
double CostOf(const ControlPlan& control) {
  double sum = 0, most = 0;
  for (const auto& body : control.bodies) {
    const std::vector<double> costs =
        CostsOf(*body, 0, static_cast<StepId>(body->steps().size()));
    const double cost = std::accumulate(costs.begin(), costs.end(), 0.0);
    sum += cost;
    most = std::max(most, cost);
  }
  return kNanosecondsOfLaunch + (control.kind == ControlKind::kIf ? most : sum);
}

}  // namespace

StepAccesses AccessesOf(const Plan& plan, StepId begin, StepId end) {
  StepAccesses accesses;
  accesses.Reserve(end - begin, plan.args().size());
  for (StepId id = begin; id < end; ++id) {
    const Step& step = plan.steps()[id];
    for (int32_t i = 0; i < step.num_args; ++i) {
      const Location& location = plan.args()[step.first_arg + i];
      const int64_t bytes = plan.arg_bytes()[step.first_arg + i];
      if (!HasMemory(location.home) || bytes == 0) continue;
      accesses.Add({.space = SpaceOf(location),
                    .begin = location.offset,
                    .end = location.offset + bytes,
                    .is_write = i >= step.num_operands});
    }
    if (StepHasEffect(plan, step)) {
      accesses.Add({.space = kWorld, .end = 1, .is_write = true});
    }
    accesses.EndStep();
  }
  return accesses;
}

double CostOf(const Program& program, const Op& op) {
  double bytes = 0;
  const auto add = [&](ValueId id) {
    bytes += static_cast<double>(program.type(id).extent_bytes());
  };
  ForEachValue(op.arguments, add);
  for (ValueId id : op.results) add(id);
  return kNanosecondsOfLaunch + bytes / kBytesPerNanosecond +
         2 * WorkOf(program, op).products / kFlopsPerNanosecond;
}

std::vector<double> CostsOf(const Plan& plan, StepId begin, StepId end) {
  std::vector<double> costs;
  costs.reserve(end - begin);
  for (StepId id = begin; id < end; ++id) {
    const Step& step = plan.steps()[id];
    if (step.control != nullptr) {
      costs.push_back(CostOf(*step.control));
      continue;
    }
    if (const Op* op = plan.op(step); op != nullptr) {
      costs.push_back(CostOf(plan.block(step), *op));
      continue;
    }
    double bytes = 0;
    for (int32_t i = 0; i < step.num_args; ++i) {
      bytes += static_cast<double>(plan.arg_bytes()[step.first_arg + i]);
    }
    costs.push_back(kNanosecondsOfLaunch + bytes / kBytesPerNanosecond);
  }
  return costs;
}

std::vector<bool> HasEffects(const Plan& plan, StepId begin, StepId end) {
  std::vector<bool> has_effects;
  for (StepId id = begin; id < end; ++id) {
    const Step& step = plan.steps()[id];
    has_effects.push_back(StepHasEffect(plan, step) || IsAtens(plan, step));
  }
  return has_effects;
}

std::vector<bool> AreAtens(const Plan& plan, StepId begin, StepId end) {
  std::vector<bool> are_atens;
  for (StepId id = begin; id < end; ++id) {
    are_atens.push_back(IsAtens(plan, plan.steps()[id]));
  }
  return are_atens;
}

}  // namespace mica
