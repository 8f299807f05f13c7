// What a Program leaves behind.

#ifndef MICA_FRAMEWORK_IR_UPDATES_H_
#define MICA_FRAMEWORK_IR_UPDATES_H_

#include "framework/ir/program.h"

namespace mica {

// The first variable, not input, that a run updates; kNoValue if it updates
// none.
inline ValueId FirstUpdatedVariable(const Program& program) {
  for (const Update& update : program.updates()) {
    const ValueKind kind = program.value(update.target).kind;
    if (kind == ValueKind::kVariable) return update.target;
  }
  return kNoValue;
}

}  // namespace mica

#endif  // MICA_FRAMEWORK_IR_UPDATES_H_
