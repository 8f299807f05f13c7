// Kernels of products with weights of few bits, of the families that
// RegisterAll() registers.

#ifndef MICA_KERNELS_CPU_FEW_BITS_KERNELS_H_
#define MICA_KERNELS_CPU_FEW_BITS_KERNELS_H_

#include "framework/kernel/kernel_registry.h"

namespace mica::cpu {

void RegisterQuantise(KernelRegistry& registry);  // Of weights.
void RegisterInt8Linear(KernelRegistry& registry);
void RegisterInt4Linear(KernelRegistry& registry);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_FEW_BITS_KERNELS_H_
