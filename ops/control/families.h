// The families of operators in this folder.

#ifndef MICA_OPS_CONTROL_FAMILIES_H_
#define MICA_OPS_CONTROL_FAMILIES_H_

#include "framework/op/op_registry.h"

namespace mica {

void RegisterControlOps(OpRegistry& registry);

}  // namespace mica

#endif  // MICA_OPS_CONTROL_FAMILIES_H_
