// Copies, for kernels that are made of them.

#ifndef MICA_KERNELS_CPU_MOVEMENT_H_
#define MICA_KERNELS_CPU_MOVEMENT_H_

#include "framework/kernel/kernel.h"

namespace mica::cpu {

// Operand 0 copied to result 0, converted if their types differ. The result
// may have gaps, which are left as they are.
Verdict PrepareCopy(const KernelRequest& request);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_MOVEMENT_H_
