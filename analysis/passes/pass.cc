#include "analysis/passes/pass.h"

#include <algorithm>

#include "framework/ir/control_flow.h"

namespace mica {
OpNames OpNames::WithBodies(const Program& program) {
  OpNames names;
  // Few operators make many ops: each is asked for its name once.
  absl::flat_hash_set<const OpDef*> defs;
  ForEachOp(program, [&](const Op& op) {
    if (defs.insert(op.def).second) names.names_.insert(op.def->name());
  });
  return names;
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
