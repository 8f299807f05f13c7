// One instruction of a region, lane by lane.

#ifndef MICA_KERNELS_LLVM_INSTRUCTIONS_H_
#define MICA_KERNELS_LLVM_INSTRUCTIONS_H_

#include "absl/types/span.h"
#include "framework/op/region_ops.h"
#include "framework/tensor/dtype.h"
#include "kernels/llvm/ir_lanes.h"

namespace mica::region::ir {

// `operands` are of the dtype that the operator computes in; the first one of
// "where" and what comparisons give are masks.
llvm::Value* Apply(RegionOpId op, DType dtype,
                   absl::Span<llvm::Value* const> operands);

}  // namespace mica::region::ir

#endif  // MICA_KERNELS_LLVM_INSTRUCTIONS_H_
