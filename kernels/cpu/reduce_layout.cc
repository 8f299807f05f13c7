#include "kernels/cpu/reduce_layout.h"

#include <algorithm>
#include <utility>

namespace mica::cpu {
namespace {

// The joined axes of one kind, with the first array's steps to sort them by.
AxisList AxesOfKind(absl::Span<const Dim> dims,
                    const std::vector<bool>& is_reduced, bool kind,
                    absl::Span<const TensorType* const> arrays) {
  // Of the other kind each array is one element wide.
  Dims of_kind(dims.begin(), dims.end());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (is_reduced[d] != kind) of_kind[d] = 1;
  }
  std::vector<TensorType> types;
  for (const TensorType* array : arrays) {
    TensorType type = *array;
    type.strides = type.EffectiveStrides();
    const size_t lacks = dims.size() - type.dims.size();
    for (size_t d = 0; d < type.dims.size(); ++d) {
      if (is_reduced[lacks + d] != kind) type.dims[d] = 1;
    }
    types.push_back(std::move(type));
  }
  std::vector<const TensorType*> pointers;
  for (const TensorType& type : types) pointers.push_back(&type);
  const Axes axes = JoinedAxes(of_kind, pointers);
  AxisList list;
  list.sizes.assign(axes.sizes.begin(), axes.sizes.end());
  for (size_t a = 0; a < arrays.size(); ++a) {
    const int64_t bytes = ElementBytes(arrays[a]->dtype);
    absl::InlinedVector<int64_t, 4> steps;
    for (int64_t stride : axes.strides[a]) steps.push_back(stride * bytes);
    list.steps.push_back(std::move(steps));
  }
  return list;
}

// Takes the innermost axis out of a list; one of size 1 if there is none.
int64_t TakeInnermost(AxisList& list, std::vector<int64_t>& steps) {
  for (auto& own : list.steps) {
    steps.push_back(own.empty() ? 0 : own.back());
    if (!own.empty()) own.pop_back();
  }
  if (list.sizes.empty()) return 1;
  const int64_t size = list.sizes.back();
  list.sizes.pop_back();
  return size;
}

}  // namespace

ReduceLayout LayOutReduction(absl::Span<const Dim> dims,
                             const std::vector<bool>& is_reduced,
                             absl::Span<const TensorType* const> arrays) {
  ReduceLayout layout;
  layout.kept = AxesOfKind(dims, is_reduced, false, arrays);
  layout.reduced = AxesOfKind(dims, is_reduced, true, arrays);
  const auto step = [](const AxisList& list) {
    return list.sizes.empty() ? INT64_MAX : list.steps[0].back();
  };
  layout.reduces_columns = step(layout.reduced) <= step(layout.kept);
  AxisList& columns = layout.reduces_columns ? layout.reduced : layout.kept;
  AxisList& rows = layout.reduces_columns ? layout.kept : layout.reduced;
  layout.columns = TakeInnermost(columns, layout.column_steps);
  // Between them lies an axis that is broadcast, or kept.
  constexpr int64_t kFewColumns = 512;
  layout.reduces_both = layout.reduces_columns && !columns.sizes.empty() &&
                        layout.columns < kFewColumns;
  layout.rows =
      TakeInnermost(layout.reduces_both ? columns : rows, layout.row_steps);
  return layout;
}

}  // namespace mica::cpu
