#include "analysis/passes/dead_ops.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/passes/program_facts.h"
#include "analysis/passes/prune.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

// Which ops something observable depends on: an output, an update, an effect.
struct LiveOps {
  std::vector<bool> is_live;
  // Of ops with bodies, what is needed of them.
  absl::flat_hash_map<OpId, PrunedControl> controls;
};

// Whether a part of it may be needed alone. Other calls of a function may want
// what one doesn't: it stays as it is.
bool IsPruned(const Op& op) {
  return !op.bodies.empty() && ControlKindOf(*op.def) != ControlKind::kCall;
}

absl::StatusOr<LiveOps> FindLiveOps(const Program& program,
                                    absl::Span<const ValueId> outputs,
                                    const OpRegistry& registry) {
  std::vector<bool> live_values(program.num_values(), false);
  for (ValueId id : outputs) {
    if (id != kNoValue) live_values[id] = true;
  }
  for (const Update& update : program.updates()) {
    live_values[update.value] = true;
  }
  LiveOps live{.is_live = std::vector<bool>(program.ops().size(), false)};
  auto mark = [&](ValueId id) { live_values[id] = true; };
  Effects effects;
  for (int i = static_cast<int>(program.ops().size()) - 1; i >= 0; --i) {
    const Op& op = program.ops()[i];
    const bool is_live =
        effects.Has(op) ||
        std::any_of(op.results.begin(), op.results.end(),
                    [&](ValueId id) { return live_values[id]; });
    if (!is_live) continue;
    if (!IsPruned(op)) {
      live.is_live[i] = true;
      ForEachValue(op.arguments, mark);
      continue;
    }
    MICA_ASSIGN_OR_RETURN(PrunedControl pruned,
                          PruneControl(program, op, live_values, registry));
    for (const auto& [result, operand] : pruned.forwarded) mark(operand);
    if (pruned.is_needed) ForEachValue(pruned.op.arguments, mark);
    live.controls.emplace(i, std::move(pruned));
  }
  return live;
}

}  // namespace

absl::StatusOr<Program> KeepLiveOps(const Program& program,
                                    absl::Span<const ValueId> outputs,
                                    const OpRegistry& registry) {
  MICA_ASSIGN_OR_RETURN(const LiveOps live,
                        FindLiveOps(program, outputs, registry));
  Rewriter rewriter(program, registry);
  rewriter.set_outputs(outputs);
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (size_t i = 0; i < program.ops().size(); ++i) {
    const Op& op = program.ops()[i];
    const auto control = live.controls.find(static_cast<OpId>(i));
    if (control != live.controls.end()) {
      const PrunedControl& pruned = control->second;
      for (const auto& [result, operand] : pruned.forwarded) {
        rewriter.Map(result, rewriter.NewId(operand));
      }
      if (pruned.is_needed) {
        MICA_RETURN_IF_ERROR(rewriter.CopyOp(pruned.op));
      }
    } else if (live.is_live[i]) {
      MICA_RETURN_IF_ERROR(rewriter.CopyOp(op));
    }
  }
  return rewriter.Finish();
}

bool MayHaveDeadOps(const Program& program) {
  return (program.depth() > 0 &&
          std::any_of(program.ops().begin(), program.ops().end(), IsPruned)) ||
         FindReads(program).has_dead_ops;
}

absl::StatusOr<Program> RemoveDeadOps(Program program,
                                      const OpRegistry& registry) {
  if (!MayHaveDeadOps(program)) return program;
  return KeepLiveOps(program, program.outputs(), registry);
}

absl::StatusOr<Program> WithOutputs(const Program& program,
                                    absl::Span<const ValueId> outputs,
                                    const OpRegistry& registry) {
  return KeepLiveOps(program, outputs, registry);
}

absl::StatusOr<Program> WithFetches(const Program& program,
                                    absl::Span<const std::string> fetches,
                                    const OpRegistry& registry) {
  std::vector<ValueId> outputs;
  for (const std::string& name : fetches) {
    outputs.push_back(program.FindValue(name));
    if (outputs.back() != kNoValue) continue;
    const auto append_name = [&](std::string* out, ValueId id) {
      absl::StrAppend(out, program.value(id).name);
    };
    return absl::NotFoundError(
        absl::StrCat("fetch \"", name, "\" is no value of program @",
                     program.name(), ", which returns ",
                     absl::StrJoin(program.outputs(), ", ", append_name)));
  }
  return WithOutputs(program, outputs, registry);
}

}  // namespace mica
