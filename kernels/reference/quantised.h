#ifndef MICA_KERNELS_REFERENCE_QUANTISED_H_
#define MICA_KERNELS_REFERENCE_QUANTISED_H_

#include "framework/kernel/kernel_registry.h"

namespace mica {

// Products with weights of few bits, and what makes those.
void RegisterReferenceQuantised(KernelRegistry& registry);

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_QUANTISED_H_
