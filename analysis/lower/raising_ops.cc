#include "analysis/lower/raising_ops.h"

#include "absl/algorithm/container.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/op/op_def.h"
#include "kernels/reference/host_arithmetic.h"

namespace mica {
namespace {

// Elementwise ops of tensors do only for whole numbers, by which they divide.
bool OpMayRaise(const Program& program, const Op& op) {
  if (op.results.empty()) return false;
  if (!op.def->raises_by_values()) return MayRaise(op.def->name());
  return !op.def->is_elementwise() ||
         !IsFloating(program.type(op.results[0]).dtype);
}

}  // namespace

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
    if (!is_live && OpMayRaise(program, op)) {
      found.push_back(op.results[0]);
      is_live = true;
    }
    if (!is_live) continue;
    ForEachValue(op.arguments, [&](ValueId id) { needed[id] = true; });
  }
  return found;
}

absl::StatusOr<Program> WithKept(const Program& program,
                                 absl::Span<const ValueId> outputs,
                                 absl::Span<const ValueId> values,
                                 const OpRegistry& registry) {
  Rewriter rewriter(program, registry);
  rewriter.set_outputs(outputs);
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (const Op& op : program.ops()) {
    MICA_RETURN_IF_ERROR(rewriter.CopyOp(op));
    for (const ValueId id : op.results) {
      if (!absl::c_linear_search(values, id)) continue;
      MICA_ASSIGN_OR_RETURN(const OpDef* keep,
                            rewriter.builder().FindOp("mica.keep"));
      MICA_RETURN_IF_ERROR(
          rewriter.builder()
              .AddOp({.def = keep, .arguments = {ValueRef{rewriter.NewId(id)}}})
              .status());
    }
  }
  return rewriter.Finish();
}

}  // namespace mica
