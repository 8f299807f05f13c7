// All kernels that this build has.

#ifndef MICA_KERNELS_ALL_H_
#define MICA_KERNELS_ALL_H_

#include "framework/kernel/kernel_registry.h"

namespace mica {

void RegisterAllKernels(KernelRegistry& registry);

// One registry with all of them, made at the first call. Thread-safe.
const KernelRegistry& AllKernels();

// The oracle alone. Thread-safe.
const KernelRegistry& ReferenceKernels();

}  // namespace mica

#endif  // MICA_KERNELS_ALL_H_
