// Bodies that may be written.

#ifndef MICA_ANALYSIS_PLAN_OWN_BODIES_H_
#define MICA_ANALYSIS_PLAN_OWN_BODIES_H_

#include "framework/ir/program.h"

namespace mica {

// Gives `program` copies of its own of all bodies, at every depth: those that
// it has may be others', too. For who writes lines or sizes in a Program that
// nobody else has seen, so that it isn't yet frozen.
void OwnBodies(Program& program);

// Calls `visit(Program& body)` for each body of `op`, which must be one of a
// Program behind OwnBodies().
template <typename Visit>
void ForEachOwnBody(const Op& op, const Visit& visit) {
  for (const auto& body : op.bodies) visit(const_cast<Program&>(*body));
}

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_OWN_BODIES_H_
