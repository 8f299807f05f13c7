// All operators that Mica knows.

#ifndef MICA_OPS_ALL_H_
#define MICA_OPS_ALL_H_

#include "framework/op/op_registry.h"

namespace mica {

void RegisterAllOps(OpRegistry& registry);

// One registry with all of them, made at the first call. Thread-safe.
const OpRegistry& AllOps();

}  // namespace mica

#endif  // MICA_OPS_ALL_H_
