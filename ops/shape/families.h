// The families of operators in this folder.

#ifndef MICA_OPS_SHAPE_FAMILIES_H_
#define MICA_OPS_SHAPE_FAMILIES_H_

#include "framework/op/op_registry.h"

namespace mica {

void RegisterViewOps(OpRegistry& registry);
void RegisterCopyOps(OpRegistry& registry);
void RegisterJoinOps(OpRegistry& registry);
void RegisterFactoryOps(OpRegistry& registry);
void RegisterIndexOps(OpRegistry& registry);
void RegisterScatterOps(OpRegistry& registry);
void RegisterBoundedOps(OpRegistry& registry);
void RegisterViewBackwardOps(OpRegistry& registry);

}  // namespace mica

#endif  // MICA_OPS_SHAPE_FAMILIES_H_
