// The families of operators in this folder.

#ifndef MICA_OPS_NN_FAMILIES_H_
#define MICA_OPS_NN_FAMILIES_H_

#include "framework/op/op_registry.h"

namespace mica {

void RegisterActivationOps(OpRegistry& registry);
void RegisterActivationBackwardOps(OpRegistry& registry);
void RegisterSoftmaxOps(OpRegistry& registry);
void RegisterNormOps(OpRegistry& registry);
void RegisterNormBackwardOps(OpRegistry& registry);
void RegisterAttentionOps(OpRegistry& registry);
void RegisterLayerBackwardOps(OpRegistry& registry);
void RegisterLossOps(OpRegistry& registry);
void RegisterLossBackwardOps(OpRegistry& registry);
void RegisterConvOps(OpRegistry& registry);
void RegisterConvBackwardOps(OpRegistry& registry);
void RegisterResampleOps(OpRegistry& registry);
void RegisterFoldOps(OpRegistry& registry);
void RegisterRecurrentOps(OpRegistry& registry);

}  // namespace mica

#endif  // MICA_OPS_NN_FAMILIES_H_
