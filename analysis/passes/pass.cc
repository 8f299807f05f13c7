#include "analysis/passes/pass.h"

#include <algorithm>

#include "framework/ir/control_flow.h"

namespace mica {
OpNames OpNames::WithBodies(const Program& program) {
  OpNames names;
  ForEachOp(program, [&](const Op& op) { names.Add(op); });
  return names;
}

OpNames OpNames::Of(const Program& program) {
  OpNames names;
  for (const Op& op : program.ops()) names.Add(op);
  return names;
}

// Few operators make many ops: each is asked for its name once.
void OpNames::Add(const Op& op) {
  if (defs_.insert(op.def).second) names_.insert(op.def->name());
}

bool OpNames::HasAny(std::initializer_list<absl::string_view> names) const {
  return std::any_of(names.begin(), names.end(),
                     [this](absl::string_view name) { return Has(name); });
}

bool OpNames::HasAll(std::initializer_list<absl::string_view> names) const {
  return std::all_of(names.begin(), names.end(),
                     [this](absl::string_view name) { return Has(name); });
}

}  // namespace mica
