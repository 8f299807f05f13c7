#include "python/process/plans.h"

#include "analysis/plan/default_plans.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {

const std::shared_ptr<PlanCache>& Plans() {
  static const auto& plans =
      *new std::shared_ptr<PlanCache>(MakeDefaultPlans(AllOps(), AllKernels()));
  return plans;
}

}  // namespace mica
