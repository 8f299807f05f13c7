// A PlanCache as the environment wants it.

#ifndef MICA_ANALYSIS_PLAN_DEFAULT_PLANS_H_
#define MICA_ANALYSIS_PLAN_DEFAULT_PLANS_H_

#include <memory>

#include "absl/time/time.h"
#include "analysis/plan/plan_cache.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"

namespace mica {

// What takes less to build isn't kept on disk, unless a folder was asked for.
inline constexpr absl::Duration kMinBuild = absl::Milliseconds(20);

// A cache for AllOps() and AllKernels(). The environment decides on Plans kept
// on disk: in DefaultPlanFolder() those that took kMinBuild to build, or all if
// MICA_CACHE_DIR names the folder; none if MICA_PLAN_CACHE is 0 or nothing
// names a folder. One that can't be used is told of in the log.
std::shared_ptr<PlanCache> MakeDefaultPlans(const OpRegistry& ops,
                                            const KernelRegistry& kernels);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_DEFAULT_PLANS_H_
