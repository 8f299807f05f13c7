// The operators of kernels/region for lanes that write LLVM's form, and what an
// instruction of the processor does in place of several of theirs.

#ifndef MICA_KERNELS_LLVM_IR_FUNCTIONS_H_
#define MICA_KERNELS_LLVM_IR_FUNCTIONS_H_

#include "kernels/llvm/ir_lanes.h"
#include "kernels/region/arithmetic.h"

namespace mica::region::ir {

// x 2^n for integral n, by AVX-512.
llvm::Value* ScaleByAvx512(llvm::Value* x, llvm::Value* n);

template <class T>
IrFloats<T> Scale(IrFloats<T> x, PowerOf2<IrFloats<T>> power) {
  if (W().level == Level::kV4) return {ScaleByAvx512(x.v, power.n.v)};
  return region::Scale<IrFloats<T>>(x, power);
}

}  // namespace mica::region::ir

#include "kernels/region/operators.h"

#endif  // MICA_KERNELS_LLVM_IR_FUNCTIONS_H_
