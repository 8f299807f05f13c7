// The Plans that everything in this process shares.

#ifndef MICA_PYTHON_PROCESS_PLANS_H_
#define MICA_PYTHON_PROCESS_PLANS_H_

#include <memory>

#include "analysis/plan/plan_cache.h"

namespace mica {

// Of AllOps() and AllKernels(): what compiled callables, torch.compile's graphs
// and Executors are planned through. Thread-safe. Made at the first call, as
// MakeDefaultPlans() says.
const std::shared_ptr<PlanCache>& Plans();

}  // namespace mica

#endif  // MICA_PYTHON_PROCESS_PLANS_H_
