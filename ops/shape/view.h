// Views: the same bytes under other dims and strides.

#ifndef MICA_OPS_SHAPE_VIEW_H_
#define MICA_OPS_SHAPE_VIEW_H_

#include "absl/types/span.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

// The strides that give `dims` over the elements of `type` in row-major order;
// false if there are none. Both have the same number of elements.
bool ViewStrides(const TensorType& type, absl::Span<const Dim> dims,
                 Dims* strides);

}  // namespace mica

#endif  // MICA_OPS_SHAPE_VIEW_H_
