// The Plans that everything in this process shares.

#ifndef MICA_PYTHON_BRIDGE_PLANS_H_
#define MICA_PYTHON_BRIDGE_PLANS_H_

#include <memory>

#include "absl/time/time.h"
#include "analysis/plan/plan_cache.h"

namespace mica {

// Of AllOps() and AllKernels(): what compiled callables, torch.compile's graphs
// and Executors are planned through. Thread-safe.
//
// At the first call the environment decides on Plans kept on disk: in
// DefaultPlanFolder() those that took kMinBuild to build, or all if
// MICA_CACHE_DIR names the folder; none if MICA_PLAN_CACHE is 0. A folder that
// can't be used is told of once, in the log.
inline constexpr absl::Duration kMinBuild = absl::Milliseconds(20);
const std::shared_ptr<PlanCache>& Plans();

}  // namespace mica

#endif  // MICA_PYTHON_BRIDGE_PLANS_H_
