#include "analysis/passes/pass.h"

#include <algorithm>

#include "framework/ir/control_flow.h"

namespace mica {
namespace {

// Few operators make many ops: each is asked for its name once.
class DefSet {
 public:
  void Add(const OpDef* def, absl::flat_hash_set<absl::string_view>& names) {
    if (def == last_ || !defs_.insert(def).second) return;
    last_ = def;
    names.insert(def->name());
  }

 private:
  const OpDef* last_ = nullptr;
  absl::flat_hash_set<const OpDef*> defs_;
};

}  // namespace

OpNames OpNames::Of(const Program& program) {
  OpNames names;
  DefSet defs;
  for (const Op& op : program.ops()) defs.Add(op.def, names.names_);
  return names;
}

OpNames OpNames::WithBodies(const Program& program) {
  OpNames names;
  DefSet defs;
  ForEachOp(program, [&](const Op& op) { defs.Add(op.def, names.names_); });
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
