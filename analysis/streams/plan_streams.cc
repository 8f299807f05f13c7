#include "analysis/streams/plan_streams.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "analysis/control/control_plan.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

// What one core does, about: a launch, bytes from the caches, products.
constexpr double kNanosecondsOfLaunch = 30;
constexpr double kBytesPerNanosecond = 16;
constexpr double kFlopsPerNanosecond = 80;

constexpr int32_t kWorld = -1;

bool HasMemory(Home home) {
  return home == Home::kArena || home == Home::kInput ||
         home == Home::kVariable || home == Home::kOutput;
}

int32_t SpaceOf(const Location& location) {
  constexpr int32_t kNumHomes = static_cast<int32_t>(Home::kFolded) + 1;
  const int32_t index = location.home == Home::kArena ? 0 : location.index;
  return index * kNumHomes + static_cast<int32_t>(location.home);
}

bool IsContraction(absl::string_view op) {
  for (const absl::string_view word :
       {"mm", "linear", "convolution", "attention", "lstm", "gru"}) {
    if (absl::StrContains(op, word)) return true;
  }
  return false;
}

bool IsConvolution(const Op& op) {
  return op.def->name() == "aten.convolution" ||
         op.def->name() == "mica.convolution";
}

// Each weight of an output channel meets each of the channel's pixels.
double Products(const Program& program, const Op& op) {
  std::vector<ValueId> operands;
  ForEachValue(op.arguments, [&](ValueId id) { operands.push_back(id); });
  const TensorType& weight = program.type(operands[1]);
  if (weight.num_elements() == 0) return 0;
  return static_cast<double>(program.type(op.results[0]).num_elements()) *
         static_cast<double>(weight.num_elements() / weight.dims[0]);
}

bool StepHasEffect(const Plan& plan, const Step& step) {
  if (step.op < 0) return false;
  const Op& op = plan.program().ops()[step.op];
  return HasEffect(op) || IsOpaque(op);
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
  // Of a[m,k] b[k,n] c[m,n] the root of the product of all elements is the
  // number of multiplications.
  double elements = 1;
  int num_factors = 0;
  auto add = [&](ValueId id, int most_factors) {
    const TensorType& type = program.type(id);
    bytes += static_cast<double>(type.extent_bytes());
    if (++num_factors > most_factors) return;
    elements *= std::max(static_cast<double>(type.num_elements()), 1.0);
  };
  ForEachValue(op.arguments, [&](ValueId id) { add(id, 2); });
  num_factors = 0;
  for (ValueId id : op.results) add(id, 1);
  double flops = 0;
  if (IsConvolution(op)) {
    flops = 2 * Products(program, op);
  } else if (IsContraction(op.def->name())) {
    flops = 2 * std::sqrt(elements);
  }
  return kNanosecondsOfLaunch + bytes / kBytesPerNanosecond +
         flops / kFlopsPerNanosecond;
}

std::vector<double> CostsOf(const Plan& plan, StepId begin, StepId end) {
  std::vector<double> costs;
  for (StepId id = begin; id < end; ++id) {
    const Step& step = plan.steps()[id];
    if (step.control != nullptr) {
      costs.push_back(CostOf(*step.control));
      continue;
    }
    if (step.op >= 0) {
      costs.push_back(CostOf(plan.program(), plan.program().ops()[step.op]));
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
    has_effects.push_back(StepHasEffect(plan, plan.steps()[id]));
  }
  return has_effects;
}

std::vector<bool> AreOpaque(const Plan& plan, StepId begin, StepId end) {
  std::vector<bool> are_opaque;
  for (StepId id = begin; id < end; ++id) {
    const OpId op = plan.steps()[id].op;
    are_opaque.push_back(op >= 0 && IsOpaque(plan.program().ops()[op]));
  }
  return are_opaque;
}

}  // namespace mica
