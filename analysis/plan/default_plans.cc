#include "analysis/plan/default_plans.h"

#include <string>
#include <utility>

#include "framework/base/environment.h"
#include "framework/base/status.h"
#include "glog/logging.h"
#include "kernels/cpu/identity.h"

namespace mica {
namespace {

absl::StatusOr<std::unique_ptr<PlanStore>> OpenStore() {
  MICA_ASSIGN_OR_RETURN(std::string folder, DefaultPlanFolder());
  return PlanStore::Open(std::move(folder));
}

}  // namespace

std::shared_ptr<PlanCache> MakeDefaultPlans(const OpRegistry& ops,
                                            const KernelRegistry& kernels) {
  auto plans = std::make_shared<PlanCache>(ops, kernels);
  // Without an id, Plans of another build couldn't be told apart.
  if (EnvironmentVariable("MICA_PLAN_CACHE") == "0" ||
      cpu::CodeIdentity().empty()) {
    return plans;
  }
  auto store = OpenStore();
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
