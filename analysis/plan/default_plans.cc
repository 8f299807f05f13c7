#include "analysis/plan/default_plans.h"

#include <string>
#include <utility>

#include "framework/base/environment.h"
#include "glog/logging.h"
#include "kernels/cpu/identity.h"

namespace mica {

std::shared_ptr<PlanCache> MakeDefaultPlans(const OpRegistry& ops,
                                            const KernelRegistry& kernels) {
  auto plans = std::make_shared<PlanCache>(ops, kernels);
  // Without an id, Plans of another build couldn't be told apart.
  if (EnvironmentVariable("MICA_PLAN_CACHE") == "0" ||
      cpu::CodeIdentity().empty()) {
    return plans;
  }
  absl::StatusOr<std::string> folder = DefaultPlanFolder();
  if (!folder.ok()) {
    VLOG(1) << folder.status().message();
    return plans;
  }
  auto store = PlanStore::Open(*std::move(folder));
  if (!store.ok()) {
    LOG(WARNING) << store.status().message();
    return plans;
  }
  const bool is_asked_for = !EnvironmentVariable("MICA_CACHE_DIR").empty();
  plans->set_store(*std::move(store),
                   is_asked_for ? absl::ZeroDuration() : kMinBuild);
  return plans;
}

}  // namespace mica
