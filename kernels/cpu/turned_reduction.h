// Regions with reductions of a few elements each.

#ifndef MICA_KERNELS_CPU_TURNED_REDUCTION_H_
#define MICA_KERNELS_CPU_TURNED_REDUCTION_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "framework/kernel/kernel.h"
#include "framework/tensor/tensor_type.h"

namespace mica::cpu {

// Runs a request, of arrays that broadcast to `dims`, on copies that lie as two
// dimensions: what is reduced, one behind the other in memory for each kept
// place, becomes the outer one. `prepare` prepares the same code over axis 0.
// Where few elements are reduced and the places to keep lie around them, a loop
// for each place takes far longer than to turn all over.
Verdict PrepareTurnedReduction(
    const KernelRequest& request, const Dims& dims,
    const std::vector<bool>& is_reduced,
    absl::FunctionRef<Verdict(const KernelRequest&)> prepare);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_TURNED_REDUCTION_H_
