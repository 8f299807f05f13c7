#include "analysis/lower/raising_numbers.h"

#include "framework/op/op_def.h"
#include "kernels/reference/host_arithmetic.h"

namespace mica {

bool MayRaise(absl::string_view op) {
  const HostOp* known = FindHostOp(op);
  return known != nullptr && known->may_raise;
}

std::vector<ValueId> UnusedThatMayRaise(const Program& program) {
  std::vector<bool> needed(program.num_values(), false);
  for (const Update& update : program.updates()) needed[update.value] = true;
  for (const ValueId id : program.outputs()) {
    if (id != kNoValue) needed[id] = true;
  }
  std::vector<ValueId> found;
  for (size_t i = program.ops().size(); i-- > 0;) {
    const Op& op = program.ops()[i];
    bool is_live = op.def->has_effect();
    for (const ValueId result : op.results) {
      is_live = is_live || (result != kNoValue && needed[result]);
    }
    if (!is_live && MayRaise(op.def->name())) {
      found.push_back(op.results[0]);
      is_live = true;
    }
    if (!is_live) continue;
    ForEachValue(op.arguments, [&](ValueId id) { needed[id] = true; });
  }
  return found;
}

}  // namespace mica
