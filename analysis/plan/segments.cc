#include "analysis/plan/segments.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// Results of ops before `cut` that are read from there on, in order.
std::vector<ValueId> FindCrossing(const Program& program, OpId cut) {
  std::vector<bool> is_read(program.num_values(), false);
  const auto read = [&](ValueId id) { is_read[id] = true; };
  for (size_t i = cut + 1; i < program.ops().size(); ++i) {
    ForEachValue(program.ops()[i].arguments, read);
  }
  for (const Update& update : program.updates()) read(update.value);
  for (ValueId id : program.outputs()) read(id);
  std::vector<ValueId> crossing;
  for (OpId i = 0; i < cut; ++i) {
    for (ValueId id : program.ops()[i].results) {
      if (is_read[id]) crossing.push_back(id);
    }
  }
  return crossing;
}

absl::StatusOr<Program> MakeHead(const Program& program, OpId cut,
                                 const std::vector<ValueId>& crossing,
                                 const OpRegistry& ops) {
  Rewriter rewriter(program, ops);
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (OpId i = 0; i < cut; ++i) {
    MICA_RETURN_IF_ERROR(rewriter.CopyOp(program.ops()[i]));
  }
  // aten.nonzero in room for all is mica.nonzero.
  const Op& op = program.ops()[cut];
  const std::string name =
      absl::StrCat("mica.", absl::StripPrefix(op.def->name(), "aten."));
  MICA_ASSIGN_OR_RETURN(const OpDef* def, rewriter.builder().FindOp(name));
  ProgramBuilder::OpSpec spec{
      .def = def, .arguments = op.arguments, .source = op.source};
  RenameValues(spec.arguments, [&](ValueId id) { return rewriter.NewId(id); });
  MICA_ASSIGN_OR_RETURN(const auto results,
                        rewriter.builder().AddOp(std::move(spec)));
  std::vector<ValueId> outputs(results.begin(), results.end());
  for (ValueId id : crossing) outputs.push_back(rewriter.NewId(id));
  return rewriter.builder().Build(outputs);
}

absl::StatusOr<Program> MakeRest(const Program& program, OpId cut,
                                 const std::vector<ValueId>& carried,
                                 const OpRegistry& ops) {
  Rewriter rewriter(program, ops);
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (ValueId id : carried) {
    const Value& value = program.value(id);
    MICA_ASSIGN_OR_RETURN(const ValueId input,
                          rewriter.builder().AddInput(value.name, *value.type));
    rewriter.Map(id, input);
  }
  for (size_t i = cut + 1; i < program.ops().size(); ++i) {
    MICA_RETURN_IF_ERROR(rewriter.CopyOp(program.ops()[i]));
  }
  return rewriter.Finish();
}

}  // namespace

absl::StatusOr<Segments> CutAtBoundedOp(const Program& program,
                                        const OpRegistry& ops) {
  const OpId cut = program.first_bounded_op();
  const Op& op = program.ops()[cut];
  bool is_known = true;
  for (OpId i = 0; i < cut; ++i) {
    for (ValueId id : program.ops()[i].results) {
      is_known = is_known && program.type(id).is_static();
    }
  }
  ForEachValue(op.arguments, [&](ValueId id) {
    is_known = is_known && program.type(id).is_static();
  });
  if (!is_known) {
    return absl::InvalidArgumentError(absl::StrCat(
        "program @", program.name(), ": ", Describe(op),
        " comes behind a symbol that has no size: no input's shape gives it "
        "one, and no op before"));
  }
  const std::vector<ValueId> crossing = FindCrossing(program, cut);
  std::vector<ValueId> carried = {op.results[0]};
  carried.insert(carried.end(), crossing.begin(), crossing.end());
  MICA_ASSIGN_OR_RETURN(Program head, MakeHead(program, cut, crossing, ops));
  MICA_ASSIGN_OR_RETURN(Program rest, MakeRest(program, cut, carried, ops));
  Segments segments{.head = std::make_shared<const Program>(std::move(head)),
                    .rest = std::make_shared<const Program>(std::move(rest)),
                    .op = Describe(op),
                    .result = program.type(op.results[0])};
  for (ValueId id : carried) {
    segments.carried.push_back(program.value(id).name);
  }
  return segments;
}

}  // namespace mica
