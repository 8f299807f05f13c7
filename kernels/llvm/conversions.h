// Elements between their types, lane by lane.

#ifndef MICA_KERNELS_LLVM_CONVERSIONS_H_
#define MICA_KERNELS_LLVM_CONVERSIONS_H_

#include "framework/tensor/dtype.h"
#include "kernels/llvm/ir_lanes.h"

namespace mica::region::ir {

// Of an element in memory: floats of 16 bits are i16, bool is i8.
llvm::Type* MemoryType(DType dtype);

// Which nans a float may be. Rounded as if it were a number, a nan whose lower
// 16 bits aren't 0 may become one.
enum class Nans : bool { kAny, kShort };

// A vector as it lies in memory to one that is computed with: floats of 16
// bits become float, bool i1.
llvm::Value* Widen(llvm::Value* x, DType dtype);
// The inverse: rounds to the nearest, halves to the even one.
llvm::Value* Narrow(llvm::Value* x, DType dtype, Nans nans);

// Of what is a number of `dtype` already.
llvm::Value* NarrowExact(llvm::Value* x, DType dtype);

// Narrow() and Widen() in one.
llvm::Value* Round(llvm::Value* x, DType dtype, Nans nans);

// Between types that are computed in (bool as i1). Floats to ints truncate, by
// way of i32, or i64 if the int has 64 bits; what is out of that range becomes
// its least one, as the processor does. Ints wrap around.
llvm::Value* Convert(llvm::Value* x, DType from, DType to);

// A number in all lanes, as what an instruction computes in.
llvm::Value* NumberLanes(double number, DType dtype);

}  // namespace mica::region::ir

#endif  // MICA_KERNELS_LLVM_CONVERSIONS_H_
