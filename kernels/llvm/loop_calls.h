// Operators that code of a region has from the vector loops of the engine.

#ifndef MICA_KERNELS_LLVM_LOOP_CALLS_H_
#define MICA_KERNELS_LLVM_LOOP_CALLS_H_

#include "absl/types/span.h"
#include "framework/op/region_ops.h"
#include "framework/tensor/dtype.h"
#include "kernels/llvm/ir_lanes.h"

namespace mica::region::ir {

// As Apply(). Of operators that do much for numbers that are rare, such as the
// sine of a huge angle, only the usual part is in place. Where a lane is
// unusual, all are computed by a call: LLVM would be at the rest for 5 to 10
// milliseconds. The loops are compiled from the same expressions, and give the
// same bits.
llvm::Value* ApplyOrCall(RegionOpId op, DType dtype,
                         absl::Span<llvm::Value* const> operands);

}  // namespace mica::region::ir

#endif  // MICA_KERNELS_LLVM_LOOP_CALLS_H_
