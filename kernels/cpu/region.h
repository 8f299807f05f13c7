// A region's code over a request's operands and results.

#ifndef MICA_KERNELS_CPU_REGION_H_
#define MICA_KERNELS_CPU_REGION_H_

#include "framework/kernel/kernel.h"
#include "framework/op/region_code.h"

namespace mica::cpu {

// The request's operands and results are those of the code, in its order; they
// may lie in any way, operands broadcast to the results' dims.
Verdict PrepareRegionCode(const KernelRequest& request, const RegionCode& code);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_REGION_H_
