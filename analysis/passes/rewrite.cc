#include "analysis/passes/rewrite.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/fetch_ahead.h"
#include "framework/tensor/size_expression.h"
#include "framework/trace/recorder.h"

namespace mica {

Rewriter::Rewriter(const Program& from, const OpRegistry& registry)
    : from_(from),
      registry_(registry),
      builder_(registry, from.name()),
      inputs_(from.inputs().begin(), from.inputs().end()),
      outputs_(from.outputs().begin(), from.outputs().end()) {}

TensorType Rewriter::MapType(TensorType type) const {
  if (dim_map_ == nullptr) return type;
  for (Dim& dim : type.dims) dim = dim_map_(dim);
  for (Dim& stride : type.strides) stride = dim_map_(stride);
  return type;
}

void Rewriter::Begin() {
  new_ids_.assign(from_.num_values(), kNoValue);
  is_as_before_.assign(from_.num_values(), false);
  builder_.AvoidNumbersOf(from_);
}

absl::Status Rewriter::CopyDeclarations() {
  Begin();
  builder_.Reserve(static_cast<size_t>(from_.num_values()) + more_ops_,
                   from_.ops().size() + more_ops_);
  for (const OpDef* def : from_.OpaqueDefs()) {
    MICA_RETURN_IF_ERROR(builder_.DeclareOpaque(def->schema()));
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Value& value = from_.value(inputs_[i]);
    MICA_ASSIGN_OR_RETURN(
        new_ids_[inputs_[i]],
        builder_.AddInput(value.name, input_types_.empty()
                                          ? MapType(*value.type)
                                          : input_types_[i]));
  }
  for (const Variable& variable : from_.variables()) {
    const Value& value = from_.value(variable.value);
    if (dim_map_ == nullptr && variable_names_ == nullptr) {
      MICA_ASSIGN_OR_RETURN(new_ids_[variable.value],
                            builder_.CopyVariable(from_, variable));
      continue;
    }
    MICA_ASSIGN_OR_RETURN(
        new_ids_[variable.value],
        builder_.AddVariable(value.name,
                             variable_names_ == nullptr
                                 ? variable.name
                                 : variable_names_(variable.name),
                             MapType(*value.type)));
  }
  for (const Constant& constant : from_.constants()) {
    const Value& value = from_.value(constant.value);
    MICA_ASSIGN_OR_RETURN(
        new_ids_[constant.value],
        builder_.AddConstant(value.name, *value.type, constant.bytes));
  }
  for (ValueId id = 0; id < from_.num_values(); ++id) {
    is_as_before_[id] = new_ids_[id] != kNoValue && dim_map_ == nullptr;
  }
  if (!input_types_.empty()) {
    for (ValueId id : inputs_) Map(id, new_ids_[id]);
  }
  return absl::OkStatus();
}

absl::StatusOr<const OpDef*> Rewriter::FindOp(const OpDef* def) {
  const OpDef*& found = defs_[def];
  if (found == nullptr) {
    MICA_ASSIGN_OR_RETURN(found, builder_.FindOp(def->name()));
  }
  return found;
}

absl::Status Rewriter::CopyOp(const Op& op) {
  bool is_as_before = dim_map_ == nullptr;
  ForEachValue(op.arguments, [&](ValueId id) {
    is_as_before = is_as_before && is_as_before_[id];
  });
  const absl::Status status =
      is_as_before ? CopyOpAsBefore(op) : CopyOp(op, op.bodies);
  if (!status.ok()) return Annotate(status, op.source.ToString());
  return status;
}

absl::Status Rewriter::CopyOpAsBefore(const Op& op) {
  MICA_ASSIGN_OR_RETURN(const OpDef* def, FindOp(op.def));
  Arguments arguments = op.arguments;
  RenameValues(arguments, [&](ValueId id) { return new_ids_[id]; });
  MICA_ASSIGN_OR_RETURN(const auto results,
                        builder_.CopyOp(from_, op, def, std::move(arguments)));
  for (size_t i = 0; i < results.size(); ++i) {
    new_ids_[op.results[i]] = results[i];
    is_as_before_[op.results[i]] = true;
  }
  return absl::OkStatus();
}

absl::Status Rewriter::CopyOp(const Op& op, Bodies bodies) {
  MICA_ASSIGN_OR_RETURN(const OpDef* def, FindOp(op.def));
  ProgramBuilder::OpSpec spec{
      .def = def, .arguments = op.arguments, .source = op.source};
  RenameValues(spec.arguments, [&](ValueId id) { return new_ids_[id]; });
  if (dim_map_ != nullptr) {
    for (auto& body : bodies) {
      std::shared_ptr<const Program>& mapped = (*mapped_)[body.get()];
      if (mapped == nullptr) {
        MICA_ASSIGN_OR_RETURN(Program made, MapDims(*body));
        mapped = std::make_shared<const Program>(std::move(made));
      }
      body = mapped;
    }
    for (Argument& argument : spec.arguments) {
      if (auto* ints = std::get_if<std::vector<int64_t>>(&argument)) {
        std::transform(ints->begin(), ints->end(), ints->begin(), dim_map_);
      } else if (auto* number = std::get_if<int64_t>(&argument)) {
        *number = dim_map_(*number);
      }
    }
  }
  spec.bodies = std::move(bodies);
  for (ValueId id : op.results) {
    spec.types.push_back(MapType(from_.type(id)));
    spec.names.push_back(from_.value(id).name);
  }
  MICA_ASSIGN_OR_RETURN(const auto results, builder_.AddOp(std::move(spec)));
  for (size_t i = 0; i < results.size(); ++i) {
    Map(op.results[i], results[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<Program> Rewriter::MapDims(const Program& body) const {
  Rewriter rewriter(body, registry_);
  rewriter.set_dim_map(dim_map_);
  rewriter.mapped_ = mapped_;
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (const Op& op : body.ops()) MICA_RETURN_IF_ERROR(rewriter.CopyOp(op));
  return rewriter.Finish();
}

absl::StatusOr<Program> Rewriter::Finish() {
  for (const Update& update : from_.updates()) {
    MICA_RETURN_IF_ERROR(
        builder_.AddUpdate(new_ids_[update.target], new_ids_[update.value]));
  }
  bool is_body = false;  // Only a body's may be absent.
  for (ValueId& id : outputs_) {
    is_body = is_body || id == kNoValue;
    if (id != kNoValue) id = new_ids_[id];
  }
  return is_body ? builder_.BuildBody(outputs_) : builder_.Build(outputs_);
}

std::vector<ValueId> OperandsOf(const Op& op) {
  std::vector<ValueId> operands;
  ForEachValue(op.arguments, [&](ValueId id) { operands.push_back(id); });
  return operands;
}

namespace {

// Updates and returns among the uses of values.
void CountOutside(const Program& program, absl::Span<int> uses) {
  for (const Update& update : program.updates()) ++uses[update.value];
  for (ValueId id : program.outputs()) {
    if (id != kNoValue) ++uses[id];
  }
}

// What dead ops read they alone may read: but the last of them gives nothing
// that is read at all.
bool IsUnused(const Op& op, absl::Span<const int> uses) {
  return !op.def->has_effect() &&
         std::all_of(op.results.begin(), op.results.end(),
                     [&](ValueId id) { return uses[id] == 0; });
}

}  // namespace

std::vector<int> CountUses(const Program& program) {
  std::vector<int> uses(program.num_values(), 0);
  for (const Op& op : program.ops()) {
    ForEachValue(op.arguments, [&](ValueId id) { ++uses[id]; });
  }
  CountOutside(program, absl::MakeSpan(uses));
  return uses;
}

Reads FindReads(const Program& program) {
  Reads reads{.uses = LargeVector<int>(program.num_values(), 0),
              .last_op = LargeVector<OpId>(program.num_values(), -1)};
  reads.views.reserve(program.ops().size());
  OpId op_id = 0;
  for (const Op& op : program.ops()) {
    FetchAhead(program.ops(), op_id);
    ForEachValue(op.arguments, [&](ValueId id) {
      ++reads.uses[id];
      reads.last_op[id] = op_id;
    });
    if (op.def->is_view()) reads.views.push_back(op_id);
    if (op.results.empty()) {
      reads.has_dead_ops = reads.has_dead_ops || !op.def->has_effect();
    }
    ++op_id;
  }
  CountOutside(program, absl::MakeSpan(reads.uses));
  // Few values are unused, so few ops are looked at again.
  for (ValueId id = 0; id < program.num_values(); ++id) {
    if (reads.uses[id] > 0) continue;
    const Value& value = program.value(id);
    reads.has_dead_ops = reads.has_dead_ops ||
                         (value.kind == ValueKind::kResult &&
                          IsUnused(program.ops()[value.index], reads.uses));
  }
  return reads;
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

namespace {

// `missing` gets a symbol that has no size, if there is one.
absl::StatusOr<Program> ReplaceSymbols(
    const Program& program,
    const absl::flat_hash_map<std::string, int64_t>& sizes,
    const OpRegistry& registry, std::string& missing) {
  const TraceSpan span("pass", "specialise @", program.name());
  Rewriter rewriter(program, registry);
  absl::flat_hash_map<Dim, Dim> known;
  rewriter.set_dim_map([&](Dim dim) {
    if (!IsSymbol(dim)) return dim;
    const auto [it, is_new] = known.try_emplace(dim, dim);
    if (!is_new) return it->second;
    const std::string name = DimToString(dim);
    const std::optional<int64_t> size = SizeOfSymbol(name, sizes);
    if (size.has_value()) return it->second = *size;
    missing = name;
    return dim;
  });
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (const Op& op : program.ops()) {
    MICA_RETURN_IF_ERROR(rewriter.CopyOp(op));
  }
  return rewriter.Finish();
}

}  // namespace

absl::StatusOr<Program> Specialise(
    const Program& program,
    const absl::flat_hash_map<std::string, int64_t>& sizes,
    const OpRegistry& registry) {
  std::string missing;
  auto fixed = ReplaceSymbols(program, sizes, registry, missing);
  if (fixed.ok() && !missing.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program @", program.name(), ": symbol ", missing,
                     " has no size: no input's shape gives it one"));
  }
  return fixed;
}

absl::StatusOr<Program> SpecialiseKnown(
    const Program& program,
    const absl::flat_hash_map<std::string, int64_t>& sizes,
    const OpRegistry& registry) {
  std::string missing;
  return ReplaceSymbols(program, sizes, registry, missing);
}

}  // namespace mica
