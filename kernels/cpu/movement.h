// Copies, for kernels that are made of them, and what can be moved.

#ifndef MICA_KERNELS_CPU_MOVEMENT_H_
#define MICA_KERNELS_CPU_MOVEMENT_H_

#include "framework/kernel/kernel.h"

namespace mica::cpu {

// Types whose elements are numbers of 1, 2, 4 or 8 bytes.
inline constexpr DType kMovedTypes[] = {
    DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
    DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// Operand 0 copied to result 0, converted if their types differ. The result
// may have gaps, which are left as they are.
Verdict PrepareCopy(const KernelRequest& request);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_MOVEMENT_H_
