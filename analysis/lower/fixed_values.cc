#include "analysis/lower/fixed_values.h"

#include "absl/strings/match.h"
#include "framework/op/op_def.h"

namespace mica {
bool IsUninitialised(const OpDef& def) {
  return absl::StartsWith(def.name(), "aten.empty") ||
         absl::StartsWith(def.name(), "aten.new_empty");
}

std::vector<bool> FixedValues(const Program& program) {
  std::vector<bool> fixed(program.num_values(), false);
  for (const Constant& constant : program.constants()) {
    fixed[constant.value] = true;
  }
  for (const Op& op : program.ops()) {
    if (op.def->is_opaque() || op.def->has_effect() ||
        IsUninitialised(*op.def)) {
      continue;
    }
    bool is_fixed = true;
    ForEachValue(op.arguments,
                 [&](ValueId id) { is_fixed = is_fixed && fixed[id]; });
    for (const ValueId result : op.results) {
      if (result != kNoValue) fixed[result] = is_fixed;
    }
  }
  return fixed;
}

}  // namespace mica
