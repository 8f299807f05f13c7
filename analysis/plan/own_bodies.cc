#include "analysis/plan/own_bodies.h"

#include <memory>
#include <utility>

namespace mica {

void OwnBodies(Program& program) {
  if (program.depth() == 0) return;
  for (const Op& op : program.ops()) {
    for (auto& body : const_cast<Op&>(op).bodies) {
      auto copy = std::make_shared<Program>(*body);
      OwnBodies(*copy);
      body = std::move(copy);
    }
  }
}

}  // namespace mica
