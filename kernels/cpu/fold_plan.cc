#include "kernels/cpu/fold_plan.h"

#include <algorithm>

namespace mica::cpu {
namespace {

// Joins neighbours that are one axis; the last one is taken out.
FoldPlan::Axis TakeInnermost(FoldPlan::AxisList& axes) {
  for (size_t i = axes.size(); i-- > 1;) {
    if (axes[i - 1].stride != axes[i].stride * axes[i].size) continue;
    axes[i - 1] = {axes[i - 1].size * axes[i].size, axes[i].stride};
    axes.erase(axes.begin() + static_cast<int64_t>(i));
  }
  if (axes.empty()) return {.size = 1, .stride = 1};
  const FoldPlan::Axis last = axes.back();
  axes.pop_back();
  return last;
}

}  // namespace

std::optional<FoldPlan> FoldPlan::Of(const TensorType& x,
                                     const std::vector<bool>& reduced) {
  if (x.is_scalar || x.num_elements() == 0) return std::nullopt;
  const Dims strides = x.EffectiveStrides();
  FoldPlan plan;
  for (int i = 0; i < x.rank(); ++i) {
    if (x.dims[i] == 1) continue;
    (reduced[i] ? plan.outer_reduced : plan.outer_kept)
        .push_back({x.dims[i], strides[i]});
    if (reduced[i]) plan.elements *= x.dims[i];
  }
  // The order of what becomes one is free, that of the results is not.
  std::stable_sort(
      plan.outer_reduced.begin(), plan.outer_reduced.end(),
      [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  plan.reduced = TakeInnermost(plan.outer_reduced);
  plan.kept = TakeInnermost(plan.outer_kept);
  // Windows that overlap have both as neighbours: no row is to be turned then.
  constexpr int64_t kMany = 16;
  plan.by_columns = plan.reduced.stride != 1 ||
                    (plan.kept.stride == 1 && plan.kept.size >= kMany);
  constexpr int64_t kFewest = 4;  // Columns that are worth a loop.
  if (plan.by_columns && (plan.kept.stride != 1 || plan.kept.size < kFewest)) {
    return std::nullopt;
  }
  for (const Axis& axis : plan.outer_kept) plan.groups *= axis.size;
  for (const Axis& axis : plan.outer_reduced) plan.tiles *= axis.size;
  return plan;
}

int64_t FoldPlan::OffsetOf(const AxisList& axes, int64_t index) {
  int64_t offset = 0;
  for (size_t i = axes.size(); i-- > 0;) {
    offset += index % axes[i].size * axes[i].stride;
    index /= axes[i].size;
  }
  return offset;
}

}  // namespace mica::cpu
