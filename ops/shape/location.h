// Where the elements of a view lie, from the dims and strides of its base.
// View operators and the scatter operators that write through one share this.

#ifndef MICA_OPS_SHAPE_LOCATION_H_
#define MICA_OPS_SHAPE_LOCATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/op/op_def.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

// All of `type`, in its strides.
View WholeView(const TensorType& type);

// Index `index` of an axis. Fails if it is outside.
absl::StatusOr<View> SelectView(const OpCall& call, const TensorType& type,
                                int64_t axis, int64_t index);

// Each step-th index from start up to end, both as Python's slices take them.
struct SliceRange {
  int64_t axis = 0;
  int64_t start = 0;
  int64_t end = INT64_MAX;
  int64_t step = 1;
};
absl::StatusOr<View> SliceView(const OpCall& call, const TensorType& type,
                               SliceRange range);

// The elements whose indices on axis2 and axis1 differ by `shift`.
struct DiagonalPlace {
  int64_t shift = 0;
  int64_t axis1 = 0;
  int64_t axis2 = 1;
};
absl::StatusOr<View> DiagonalView(const OpCall& call, const TensorType& type,
                                  DiagonalPlace place);

// Dims and strides as given, `offset` from the first element of `type`. Fails
// where they leave the memory of `type`.
absl::StatusOr<View> WindowView(const OpCall& call, const TensorType& type,
                                absl::Span<const int64_t> dims,
                                absl::Span<const int64_t> strides,
                                int64_t offset);

}  // namespace mica

#endif  // MICA_OPS_SHAPE_LOCATION_H_
