#include "analysis/plan/resolve.h"

#include "framework/base/status.h"
#include "framework/ir/fetch_ahead.h"
#include "framework/op/op_def.h"

namespace mica {

absl::StatusOr<LargeVector<Resolved>> ResolveViews(
    const Program& program, absl::Span<const OpId> views) {
  LargeVector<Resolved> resolved(program.num_values());
  for (ValueId id = 0; id < program.num_values(); ++id) {
    resolved[id] = {.base = id};
  }
  const OpCall::TypeOf type_of = [&](ValueId id) -> const TensorType& {
    return program.type(id);
  };
  for (OpId id : views) {
    FetchAhead(program.ops(), id);
    const Op& op = program.ops()[id];
    absl::StatusOr<View> view =
        op.def->view()(OpCall(*op.def, op.arguments, type_of));
    if (!view.ok()) return Annotate(view.status(), Describe(op));
    const ValueId parent = std::get<ValueRef>(op.arguments[0]).id;
    resolved[op.results[0]] = {
        .base = resolved[parent].base,
        .offset = resolved[parent].offset +
                  view->offset * ElementBytes(program.type(parent).dtype)};
  }
  return resolved;
}

}  // namespace mica
