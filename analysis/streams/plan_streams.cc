#include "analysis/streams/plan_streams.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

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

bool HasEffect(const Plan& plan, const Step& step) {
  if (step.op < 0) return false;
  const OpDef& def = *plan.program().ops()[step.op].def;
  return def.has_effect() || def.is_opaque();
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
    if (HasEffect(plan, step)) {
      accesses.Add({.space = kWorld, .end = 1, .is_write = true});
    }
    accesses.EndStep();
  }
  return accesses;
}

std::vector<double> CostsOf(const Plan& plan, StepId begin, StepId end) {
  std::vector<double> costs;
  for (StepId id = begin; id < end; ++id) {
    const Step& step = plan.steps()[id];
    double bytes = 0;
    // Of a[m,k] b[k,n] c[m,n] the root of the product of all elements is the
    // number of multiplications.
    double elements = 1;
    for (int32_t i = 0; i < step.num_args; ++i) {
      const auto arg_bytes =
          static_cast<double>(plan.arg_bytes()[step.first_arg + i]);
      bytes += arg_bytes;
      const bool is_factor = i < 2 || i == step.num_operands;
      if (is_factor) elements *= std::max(arg_bytes / sizeof(float), 1.0);
    }
    const double flops =
        step.op >= 0 && IsContraction(plan.program().ops()[step.op].def->name())
            ? 2 * std::sqrt(elements)
            : 0;
    costs.push_back(kNanosecondsOfLaunch + bytes / kBytesPerNanosecond +
                    flops / kFlopsPerNanosecond);
  }
  return costs;
}

std::vector<bool> HasEffects(const Plan& plan, StepId begin, StepId end) {
  std::vector<bool> has_effects;
  for (StepId id = begin; id < end; ++id) {
    has_effects.push_back(HasEffect(plan, plan.steps()[id]));
  }
  return has_effects;
}

}  // namespace mica
