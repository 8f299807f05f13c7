#include "ops/all.h"

#include "ops/control/families.h"
#include "ops/math/families.h"
#include "ops/nn/families.h"
#include "ops/optim/families.h"
#include "ops/shape/families.h"

namespace mica {

void RegisterAllOps(OpRegistry& registry) {
  RegisterArithmeticOps(registry);
  RegisterUnaryOps(registry);
  RegisterLogicOps(registry);
  RegisterMatmulOps(registry);
  RegisterQuantisedOps(registry);
  RegisterReductionOps(registry);
  RegisterScanOps(registry);
  RegisterScalarOps(registry);
  RegisterRegionOps(registry);
  RegisterStepOps(registry);
  RegisterActivationOps(registry);
  RegisterActivationBackwardOps(registry);
  RegisterSoftmaxOps(registry);
  RegisterNormOps(registry);
  RegisterNormBackwardOps(registry);
  RegisterAttentionOps(registry);
  RegisterLayerBackwardOps(registry);
  RegisterLossOps(registry);
  RegisterLossBackwardOps(registry);
  RegisterConvOps(registry);
  RegisterConvBackwardOps(registry);
  RegisterResampleOps(registry);
  RegisterFoldOps(registry);
  RegisterRecurrentOps(registry);
  RegisterViewOps(registry);
  RegisterCopyOps(registry);
  RegisterJoinOps(registry);
  RegisterFactoryOps(registry);
  RegisterIndexOps(registry);
  RegisterScatterOps(registry);
  RegisterBoundedOps(registry);
  RegisterViewBackwardOps(registry);
  RegisterControlOps(registry);
}

const OpRegistry& AllOps() {
  static const OpRegistry& registry = []() -> const OpRegistry& {
    auto* filled = new OpRegistry;
    RegisterAllOps(*filled);
    return *filled;
  }();
  return registry;
}

}  // namespace mica
