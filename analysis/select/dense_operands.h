// Kernels that want operands row-major, for operands that aren't.

#ifndef MICA_ANALYSIS_SELECT_DENSE_OPERANDS_H_
#define MICA_ANALYSIS_SELECT_DENSE_OPERANDS_H_

#include <functional>

#include "framework/kernel/kernel.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

// Several elements lie at one place, as in what aten.expand gives.
bool IsExpanded(const TensorType& type);

// Asks `prepare` to take the request with those operands row-major for which
// `is_copied` says so. The launch copies them to scratch memory first.
// `kernels` has the copies. No if there is nothing to copy.
Verdict PrepareOnDense(const KernelRequest& request, const PrepareFn& prepare,
                       const std::function<bool(const TensorType&)>& is_copied,
                       const KernelRegistry& kernels);

}  // namespace mica

#endif  // MICA_ANALYSIS_SELECT_DENSE_OPERANDS_H_
