// The families of operators in this folder.

#ifndef MICA_OPS_MATH_FAMILIES_H_
#define MICA_OPS_MATH_FAMILIES_H_

#include "framework/op/op_registry.h"

namespace mica {

void RegisterArithmeticOps(OpRegistry& registry);
void RegisterUnaryOps(OpRegistry& registry);
void RegisterLogicOps(OpRegistry& registry);
void RegisterMatmulOps(OpRegistry& registry);
void RegisterQuantisedOps(OpRegistry& registry);
void RegisterReductionOps(OpRegistry& registry);
void RegisterScanOps(OpRegistry& registry);
void RegisterScalarOps(OpRegistry& registry);
void RegisterRegionOps(OpRegistry& registry);

}  // namespace mica

#endif  // MICA_OPS_MATH_FAMILIES_H_
