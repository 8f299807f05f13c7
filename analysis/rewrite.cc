#include "analysis/rewrite.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// Which ops something observable depends on: an output, an update, an effect.
std::vector<bool> FindLiveOps(const Program& program) {
  std::vector<bool> live_values(program.num_values(), false);
  for (ValueId id : program.outputs()) live_values[id] = true;
  for (const Update& update : program.updates()) {
    live_values[update.value] = true;
  }
  std::vector<bool> live_ops(program.ops().size(), false);
  for (int i = static_cast<int>(program.ops().size()) - 1; i >= 0; --i) {
    const Op& op = program.ops()[i];
    live_ops[i] = op.def->has_effect() ||
                  std::any_of(op.results.begin(), op.results.end(),
                              [&](ValueId id) { return live_values[id]; });
    if (!live_ops[i]) continue;
    ForEachValue(op.arguments, [&](ValueId id) { live_values[id] = true; });
  }
  return live_ops;
}

absl::StatusOr<Program> CopyLiveOps(const Program& program, Rewriter& rewriter,
                                    std::vector<OpId>* kept) {
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  const std::vector<bool> live_ops = FindLiveOps(program);
  for (size_t i = 0; i < program.ops().size(); ++i) {
    if (!live_ops[i]) continue;
    MICA_RETURN_IF_ERROR(rewriter.CopyOp(program.ops()[i]));
    if (kept != nullptr) kept->push_back(static_cast<OpId>(i));
  }
  return rewriter.Finish();
}

}  // namespace

Rewriter::Rewriter(const Program& from, const OpRegistry& registry)
    : from_(from),
      builder_(registry, from.name()),
      new_ids_(from.num_values(), kNoValue),
      outputs_(from.outputs().begin(), from.outputs().end()) {
  builder_.AvoidNumbersOf(from);
  builder_.Reserve(static_cast<size_t>(from.num_values()), from.ops().size());
}

TensorType Rewriter::MapType(TensorType type) const {
  if (dim_map_ == nullptr) return type;
  for (Dim& dim : type.dims) dim = dim_map_(dim);
  return type;
}

absl::Status Rewriter::CopyDeclarations() {
  for (const OpDef* def : from_.OpaqueDefs()) {
    MICA_RETURN_IF_ERROR(builder_.DeclareOpaque(def->schema()));
  }
  for (ValueId id : from_.inputs()) {
    const Value& value = from_.value(id);
    MICA_ASSIGN_OR_RETURN(new_ids_[id],
                          builder_.AddInput(value.name, MapType(value.type)));
  }
  for (const Variable& variable : from_.variables()) {
    const Value& value = from_.value(variable.value);
    MICA_ASSIGN_OR_RETURN(
        new_ids_[variable.value],
        builder_.AddVariable(value.name,
                             variable_names_ == nullptr
                                 ? variable.name
                                 : variable_names_(variable.name),
                             MapType(value.type)));
  }
  for (const Constant& constant : from_.constants()) {
    const Value& value = from_.value(constant.value);
    MICA_ASSIGN_OR_RETURN(
        new_ids_[constant.value],
        builder_.AddConstant(value.name, value.type, constant.bytes));
  }
  return absl::OkStatus();
}

absl::Status Rewriter::CopyOp(const Op& op) {
  MICA_ASSIGN_OR_RETURN(const OpDef* def, builder_.FindOp(op.def->name()));
  ProgramBuilder::OpSpec spec{
      .def = def, .arguments = op.arguments, .source = op.source};
  RenameValues(spec.arguments, [&](ValueId id) { return new_ids_[id]; });
  if (dim_map_ != nullptr) {
    for (Argument& argument : spec.arguments) {
      if (auto* ints = std::get_if<std::vector<int64_t>>(&argument)) {
        std::transform(ints->begin(), ints->end(), ints->begin(), dim_map_);
      }
    }
  }
  for (ValueId id : op.results) {
    spec.types.push_back(MapType(from_.type(id)));
    spec.names.push_back(from_.value(id).name);
  }
  auto results = builder_.AddOp(std::move(spec));
  if (!results.ok()) return Annotate(results.status(), op.source.ToString());
  for (size_t i = 0; i < op.results.size(); ++i) {
    new_ids_[op.results[i]] = (*results)[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<Program> Rewriter::Finish() {
  for (const Update& update : from_.updates()) {
    MICA_RETURN_IF_ERROR(
        builder_.AddUpdate(new_ids_[update.target], new_ids_[update.value]));
  }
  for (ValueId& id : outputs_) id = new_ids_[id];
  return builder_.Build(outputs_);
}

std::vector<int> CountUses(const Program& program) {
  std::vector<int> uses(program.num_values(), 0);
  for (const Op& op : program.ops()) {
    ForEachValue(op.arguments, [&](ValueId id) { ++uses[id]; });
  }
  for (const Update& update : program.updates()) ++uses[update.value];
  for (ValueId id : program.outputs()) ++uses[id];
  return uses;
}

absl::StatusOr<Program> RemoveDeadOps(const Program& program,
                                      const OpRegistry& registry,
                                      std::vector<OpId>* kept) {
  Rewriter rewriter(program, registry);
  return CopyLiveOps(program, rewriter, kept);
}

absl::StatusOr<Program> WithOutputs(const Program& program,
                                    absl::Span<const ValueId> outputs,
                                    const OpRegistry& registry) {
  Rewriter rewriter(program, registry);
  rewriter.set_outputs(outputs);
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (const Op& op : program.ops()) {
    MICA_RETURN_IF_ERROR(rewriter.CopyOp(op));
  }
  MICA_ASSIGN_OR_RETURN(Program all, rewriter.Finish());
  return RemoveDeadOps(all, registry);
}

absl::StatusOr<Program> RenameVariables(
    const Program& program,
    const absl::flat_hash_map<std::string, std::string>& names,
    const OpRegistry& registry) {
  Rewriter rewriter(program, registry);
  rewriter.set_variable_names([&](const std::string& name) {
    const auto it = names.find(name);
    return it == names.end() ? name : it->second;
  });
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (const Op& op : program.ops()) {
    MICA_RETURN_IF_ERROR(rewriter.CopyOp(op));
  }
  return rewriter.Finish();
}

absl::StatusOr<Program> Specialise(
    const Program& program,
    const absl::flat_hash_map<std::string, int64_t>& sizes,
    const OpRegistry& registry) {
  std::string missing;
  Rewriter rewriter(program, registry);
  rewriter.set_dim_map([&](Dim dim) {
    if (!IsSymbol(dim)) return dim;
    const auto it = sizes.find(DimToString(dim));
    if (it != sizes.end()) return it->second;
    missing = DimToString(dim);
    return dim;
  });
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (const Op& op : program.ops()) {
    MICA_RETURN_IF_ERROR(rewriter.CopyOp(op));
  }
  if (!missing.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program @", program.name(), ": symbol ", missing,
                     " has no size: no input's shape gives it one"));
  }
  return rewriter.Finish();
}

}  // namespace mica
