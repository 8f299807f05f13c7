#include "analysis/functions/inline_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

bool IsCall(const Op& op) {
  return ControlKindOf(*op.def) == ControlKind::kCall;
}

class Inliner {
 public:
  Inliner(const Program& program, const OpRegistry& ops)
      : program_(program), rewriter_(program, ops) {}

  absl::StatusOr<Program> Run() {
    MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
    for (const Op& op : program_.ops()) {
      if (!IsCall(op)) {
        MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op));
        continue;
      }
      std::vector<ValueId> operands;
      for (ValueId id : BodyOperands(op)) {
        operands.push_back(rewriter_.NewId(id));
      }
      MICA_ASSIGN_OR_RETURN(const std::vector<ValueId> results,
                            Append(op, operands, op.source.origin_shift));
      for (size_t i = 0; i < results.size(); ++i) {
        rewriter_.Map(op.results[i], results[i]);
      }
    }
    return rewriter_.Finish();
  }

 private:
  ProgramBuilder& builder() { return rewriter_.builder(); }

  // Appends the ops of the function that `call` calls of these values; returns
  // its results. `shift` leads to its ops' origins.
  absl::StatusOr<std::vector<ValueId>> Append(
      const Op& call, const std::vector<ValueId>& operands, OpId shift) {
    const Program& function = *call.bodies[0];
    std::vector<ValueId> ids(function.num_values(), kNoValue);
    for (size_t i = 0; i < operands.size(); ++i) {
      ids[function.inputs()[i]] = operands[i];
    }
    for (const OpDef* def : function.OpaqueDefs()) {
      MICA_RETURN_IF_ERROR(builder().DeclareOpaque(def->schema()));
    }
    for (const Constant& constant : function.constants()) {
      MICA_ASSIGN_OR_RETURN(
          ids[constant.value],
          builder().AddConstant("", function.type(constant.value),
                                constant.bytes));
    }
    for (const Op& op : function.ops()) {
      Op renamed = op;
      RenameValues(renamed.arguments, [&](ValueId id) { return ids[id]; });
      if (renamed.source.scope == nullptr) {
        renamed.source.scope = call.source.scope;
      }
      if (renamed.source.origin >= 0) renamed.source.origin += shift;
      MICA_ASSIGN_OR_RETURN(const std::vector<ValueId> results,
                            AppendOp(function, std::move(renamed), shift));
      for (size_t i = 0; i < results.size(); ++i) {
        ids[op.results[i]] = results[i];
      }
    }
    std::vector<ValueId> results;
    for (ValueId id : function.outputs()) {
      MICA_ASSIGN_OR_RETURN(results.emplace_back(),
                            Owned(ids[id], call.source));
    }
    return results;
  }

  absl::StatusOr<std::vector<ValueId>> AppendOp(const Program& function, Op op,
                                                OpId shift) {
    if (IsCall(op)) {
      return Append(op, BodyOperands(op), shift + op.source.origin_shift);
    }
    MICA_ASSIGN_OR_RETURN(const OpDef* def, builder().FindOp(op.def->name()));
    ProgramBuilder::OpSpec spec{.def = def,
                                .arguments = std::move(op.arguments),
                                .source = std::move(op.source),
                                .bodies = std::move(op.bodies)};
    for (ValueId id : op.results) spec.types.push_back(function.type(id));
    MICA_ASSIGN_OR_RETURN(const auto results, builder().AddOp(std::move(spec)));
    return std::vector<ValueId>(results.begin(), results.end());
  }

  // The value in memory like that of a call's result.
  absl::StatusOr<ValueId> Owned(ValueId value, const SourceLine& source) {
    const TensorType owned = OwnedType(builder().type(value));
    if (owned == builder().type(value)) return value;
    MICA_ASSIGN_OR_RETURN(const OpDef* clone, builder().FindOp("aten.clone"));
    MICA_ASSIGN_OR_RETURN(const auto results,
                          builder().AddOp({.def = clone,
                                           .arguments = {ValueRef{value}},
                                           .types = {owned},
                                           .source = source}));
    return results[0];
  }

  const Program& program_;
  Rewriter rewriter_;
};

}  // namespace

absl::StatusOr<Program> InlineCalls(Program program, const OpRegistry& ops) {
  const bool has_calls =
      std::any_of(program.ops().begin(), program.ops().end(), IsCall);
  if (!has_calls) return program;
  return Inliner(program, ops).Run();
}

}  // namespace mica
