// Checks that operators which read by index tensors share with those that
// write by them.

#ifndef MICA_OPS_SHAPE_INDEXING_H_
#define MICA_OPS_SHAPE_INDEXING_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/op/op_def.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

inline bool IsIndexDType(DType dtype) {
  return dtype == DType::kI64 || dtype == DType::kI32;
}

// True if one of the index tensors of list `param` is a mask.
bool HasMask(const OpCall& call, int param);

// Dims of self[indices], the tensor given for parameter 0 and the list for
// `param`. Unimplemented for masks: their result's size depends on data.
absl::StatusOr<Dims> IndexedDims(const OpCall& call, int param);

// Checks gather's and scatter's operands: `axis` is a parameter; `index` has
// the rank of `self` and is nowhere larger but along the axis.
absl::Status CheckAlongAxis(const OpCall& call, const TensorType& self,
                            const TensorType& index, int axis);

}  // namespace mica

#endif  // MICA_OPS_SHAPE_INDEXING_H_
