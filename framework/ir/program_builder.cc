#include "framework/ir/program_builder.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

bool HasSymbol(const Argument& argument) {
  if (const auto* number = std::get_if<int64_t>(&argument)) {
    return IsSymbol(*number);
  }
  const auto* ints = std::get_if<std::vector<int64_t>>(&argument);
  return ints != nullptr && std::any_of(ints->begin(), ints->end(), IsSymbol);
}

// True if `given` is `bound` with a symbol, or its size, for the rows.
bool IsWithin(const TensorType& bound, const TensorType& given) {
  bool fits = bound.dtype == given.dtype && bound.rank() == given.rank();
  for (int i = 0; fits && i < bound.rank(); ++i) {
    fits =
        given.dims[i] == bound.dims[i] ||
        (i == 0 && (IsSymbol(given.dims[i]) || given.dims[i] < bound.dims[i]));
  }
  return fits;
}

// The type to give a result: `given` where it agrees with `inferred`.
absl::StatusOr<TensorType> MergeTypes(const OpDef& def,
                                      const TensorType& inferred,
                                      const TensorType& given) {
  if (def.is_bounded() && !IsWithin(inferred, given)) {
    return absl::InvalidArgumentError(absl::StrCat(
        def.name(), ": result is ", inferred.ToString(),
        " at most, with a symbol for its rows, but the program says ",
        given.ToString()));
  }
  if (def.is_bounded()) return given;
  const bool agrees =
      SameShape(inferred, given) && (!def.is_view() || inferred == given);
  if (!agrees) {
    return absl::InvalidArgumentError(
        absl::StrCat(def.name(), ": result is ", inferred.ToString(),
                     ", but the program says ", given.ToString()));
  }
  return given;
}

absl::Status CheckType(absl::string_view name, const TensorType& type) {
  // What there is to say, once there is something.
  const auto error = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("%", name, ": ", what...));
  };
  if (!type.strides.empty() && type.strides.size() != type.dims.size()) {
    return error("wants a stride for each of ", type.rank(), " dims, got ",
                 type.strides.size());
  }
  if (type.is_scalar && type.rank() != 0) {
    return error("a host scalar has no dims");
  }
  if (!HasLegalSize(type)) {
    return error("size is negative or too large, ", type.ToString());
  }
  return absl::OkStatus();
}

// The shorter one first, so that numbers are in order.
bool IsBefore(absl::string_view a, absl::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

// Makes `op`, which is empty, what `model` is of other operands.
void FillLike(const Op& model, absl::Span<const ValueId> operands, Op* op) {
  op->def = model.def;
  op->source = model.source;
  op->bodies = model.bodies;
  op->arguments.reserve(model.arguments.size());
  size_t next = 0;
  for (const Argument& argument : model.arguments) {
    if (std::holds_alternative<ValueRef>(argument)) {
      op->arguments.emplace_back(ValueRef{operands[next++]});
      continue;
    }
    op->arguments.push_back(argument);
    auto* refs = std::get_if<ValueRefs>(&op->arguments.back());
    if (refs == nullptr) continue;
    for (ValueRef& ref : *refs) {
      if (ref.id != kNoValue) ref.id = operands[next++];
    }
  }
}

}  // namespace

ProgramBuilder::ProgramBuilder(const OpRegistry& registry,
                               absl::string_view name)
    : registry_(registry) {
  program_.name_ = std::string(name);
}

void ProgramBuilder::Reserve(size_t num_values, size_t num_ops) {
  program_.values_.reserve(num_values);
  program_.values_by_name_.Reserve(num_values);
  program_.body_.ops.reserve(num_ops);
}

absl::StatusOr<ValueId> ProgramBuilder::AddValue(absl::string_view name,
                                                 TensorType type,
                                                 ValueKind kind, int index,
                                                 int result) {
  std::string unique(name);
  if (unique.empty()) {
    do {
      unique = absl::StrCat(next_number_++);
    } while (program_.values_by_name_.Find(unique) != kNoValue);
  }
  MICA_RETURN_IF_ERROR(CheckType(unique, type));
  return AppendValue(std::move(unique),
                     program_.types_->Intern(InOneForm(std::move(type))), kind,
                     index, result);
}

absl::StatusOr<ValueId> ProgramBuilder::AppendValue(std::string name,
                                                    const TensorType* type,
                                                    ValueKind kind, int index,
                                                    int result) {
  const ValueId id = static_cast<ValueId>(program_.values_.size());
  if (!program_.values_by_name_.Insert(name, id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("%", name, " is defined twice"));
  }
  program_.is_static_ = program_.is_static_ && type->is_static();
  program_.values_.push_back(Value{.name = std::move(name),
                                   .type = type,
                                   .kind = kind,
                                   .index = index,
                                   .result = result});
  return id;
}

const TensorType* ProgramBuilder::OwnType(const Program& from,
                                          const TensorType* type) {
  if (types_copied_ != from.types_) {
    types_copied_ = from.types_;  // Kept: no other type comes where one is.
    own_types_.clear();
  }
  const TensorType*& own = own_types_[type];
  if (own == nullptr) own = program_.types_->Intern(*type);
  return own;
}

Op& ProgramBuilder::AppendOp(Op op) {
  const OpId id = static_cast<OpId>(program_.body_.ops.size());
  if (op.def->is_bounded() && program_.first_bounded_op_ < 0) {
    program_.first_bounded_op_ = id;
  }
  for (const Argument& argument : op.arguments) {
    program_.is_static_ = program_.is_static_ && !HasSymbol(argument);
  }
  for (const auto& body : op.bodies) {
    program_.is_static_ = program_.is_static_ && body->is_static();
    program_.depth_ = std::max(program_.depth_, body->depth() + 1);
  }
  return program_.body_.ops.emplace_back(std::move(op));
}

absl::StatusOr<ValueId> ProgramBuilder::AddInput(absl::string_view name,
                                                 TensorType type) {
  const int index = static_cast<int>(program_.inputs_.size());
  MICA_ASSIGN_OR_RETURN(
      ValueId id, AddValue(name, std::move(type), ValueKind::kInput, index));
  program_.inputs_.push_back(id);
  return id;
}

absl::StatusOr<ValueId> ProgramBuilder::AddVariable(
    absl::string_view name, absl::string_view variable_name, TensorType type) {
  OwnVariables();
  for (size_t i = variables_by_name_.size(); i < variables_.size(); ++i) {
    variables_by_name_.emplace(variables_[i].name, variables_[i].value);
  }
  const auto [it, is_new] =
      variables_by_name_.try_emplace(variable_name, kNoValue);
  if (!is_new) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable \"", variable_name, "\" is declared twice"));
  }
  MICA_ASSIGN_OR_RETURN(
      ValueId id,
      AddValue(name, std::move(type), ValueKind::kVariable, num_variables()));
  it->second = id;
  variables_.push_back(
      Variable{.name = std::string(variable_name), .value = id});
  return id;
}

absl::StatusOr<ValueId> ProgramBuilder::AddConstant(
    absl::string_view name, TensorType type, std::vector<uint8_t> bytes) {
  if (!type.is_static() || !type.is_row_major() || !HasLegalSize(type) ||
      type.num_bytes() != static_cast<int64_t>(bytes.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "constant %", name, ": wants the bytes of a row-major tensor of ",
        type.ToString(), ", got ", bytes.size(), " bytes"));
  }
  const int index = static_cast<int>(program_.constants_.size());
  MICA_ASSIGN_OR_RETURN(
      ValueId id, AddValue(name, std::move(type), ValueKind::kConstant, index));
  program_.constants_.push_back(
      Constant{.value = id, .bytes = std::move(bytes)});
  return id;
}

absl::Status ProgramBuilder::DeclareOpaque(Schema schema) {
  const std::string name = schema.op;
  if (registry_.Find(name) != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": declared opaque, but Mica knows it"));
  }
  const auto it = opaque_.find(name);
  if (it != opaque_.end()) {
    if (it->second->schema() == schema) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": declared opaque twice, with two schemas"));
  }
  opaque_.emplace(
      name, std::make_shared<const OpDef>(OpDef::Opaque(std::move(schema))));
  return absl::OkStatus();
}

absl::StatusOr<const OpDef*> ProgramBuilder::FindOp(
    absl::string_view name) const {
  if (const OpDef* def = registry_.Find(name)) return def;
  if (const auto it = opaque_.find(name); it != opaque_.end()) {
    return it->second.get();
  }
  return absl::NotFoundError(absl::StrCat("no operator ", name));
}

absl::Status ProgramBuilder::CheckValueId(ValueId id) const {
  if (id >= 0 && id < program_.num_values()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("no value number ", id));
}

absl::StatusOr<absl::InlinedVector<ValueId, 1>> ProgramBuilder::AddOp(
    OpSpec spec) {
  const OpDef& def = *spec.def;
  const std::vector<Param>& params = def.schema().params;
  for (size_t i = spec.arguments.size(); i < params.size(); ++i) {
    if (!params[i].has_default && !params[i].is_optional) break;
    spec.arguments.push_back(params[i].default_value);
  }
  Op op{.def = &def,
        .arguments = std::move(spec.arguments),
        .source = std::move(spec.source),
        .bodies = std::move(spec.bodies)};
  MICA_RETURN_IF_ERROR(CheckArguments(def, op.arguments));
  absl::Status values = absl::OkStatus();
  bool is_static = true;
  ForEachValue(op.arguments, [&](ValueId id) {
    if (values.ok()) values = CheckValueId(id);
    is_static = is_static && values.ok() && type(id).is_static();
  });
  MICA_RETURN_IF_ERROR(values);
  for (const Argument& argument : op.arguments) {
    is_static = is_static && !HasSymbol(argument);
  }
  std::vector<TensorType> types = std::move(spec.types);
  if (ControlKindOf(def) != ControlKind::kNone || !op.bodies.empty()) {
    MICA_ASSIGN_OR_RETURN(types,
                          ControlTypes(op, std::move(types), program_.values_));
  } else if (is_static && !def.is_opaque()) {
    const OpCall::TypeOf type_of = [this](ValueId id) -> const TensorType& {
      return program_.type(id);
    };
    MICA_ASSIGN_OR_RETURN(TensorTypes inferred,
                          InferTypes(OpCall(def, op.arguments, type_of)));
    if (types.empty() && def.is_bounded()) {
      return absl::InvalidArgumentError(
          absl::StrCat(def.name(),
                       ": how many rows its result has depends on data: wants "
                       "a type with a symbol"));
    }
    if (types.empty()) types.assign(inferred.begin(), inferred.end());
    if (types.size() != inferred.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(def.name(), ": has ", inferred.size(),
                       " results, but the program names ", types.size()));
    }
    for (size_t i = 0; i < types.size(); ++i) {
      MICA_ASSIGN_OR_RETURN(types[i], MergeTypes(def, inferred[i], types[i]));
    }
  }
  if (def.num_results() >= 0 &&
      static_cast<int>(types.size()) != def.num_results()) {
    return absl::InvalidArgumentError(
        absl::StrCat(def.name(), ": wants the types of ", def.num_results(),
                     " results, got ", types.size()));
  }
  if (!spec.names.empty() && spec.names.size() != types.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(def.name(), ": has ", types.size(),
                     " results, but the program names ", spec.names.size()));
  }
  const int index = static_cast<int>(program_.body_.ops.size());
  for (size_t i = 0; i < types.size(); ++i) {
    MICA_ASSIGN_OR_RETURN(
        ValueId id,
        AddValue(spec.names.empty() ? "" : spec.names[i], std::move(types[i]),
                 ValueKind::kResult, index, static_cast<int>(i)));
    op.results.push_back(id);
  }
  return AppendOp(std::move(op)).results;
}

absl::StatusOr<absl::InlinedVector<ValueId, 1>> ProgramBuilder::CopyOp(
    const Program& from, const Op& op, const OpDef* def, Arguments arguments) {
  const int index = static_cast<int>(program_.body_.ops.size());
  Op& copy = AppendOp({.def = def,
                       .arguments = std::move(arguments),
                       .source = op.source,
                       .bodies = op.bodies});
  for (ValueId id : op.results) {
    const Value& value = from.value(id);
    MICA_ASSIGN_OR_RETURN(
        const ValueId result,
        AppendValue(value.name, OwnType(from, value.type), value.kind, index,
                    static_cast<int>(copy.results.size())));
    copy.results.push_back(result);
  }
  return copy.results;
}

absl::StatusOr<ValueId> ProgramBuilder::CopyVariable(const Program& from,
                                                     const Variable& variable) {
  const Value& value = from.value(variable.value);
  const int index = num_variables();
  MICA_ASSIGN_OR_RETURN(const ValueId id,
                        AppendValue(value.name, OwnType(from, value.type),
                                    ValueKind::kVariable, index, 0));
  if (index == 0) shared_variables_ = from.variables_;
  const bool is_shared =
      num_shared_variables_ == index && shared_variables_ == from.variables_ &&
      &variable == from.variables().data() + index && variable.value == id;
  if (is_shared) {
    ++num_shared_variables_;
    return id;
  }
  OwnVariables();
  // Who copies one copies most: none is moved as the list grows.
  if (index == 0) variables_.reserve(from.variables().size());
  variables_.push_back({.name = variable.name, .value = id});
  return id;
}

void ProgramBuilder::OwnVariables() {
  if (num_shared_variables_ > 0) {
    variables_.reserve(shared_variables_->size());
    variables_.assign(shared_variables_->begin(),
                      shared_variables_->begin() + num_shared_variables_);
  }
  num_shared_variables_ = 0;
  shared_variables_ = nullptr;
}

std::shared_ptr<const std::vector<Variable>> ProgramBuilder::TakeVariables() {
  if (num_shared_variables_ > 0 &&
      num_shared_variables_ == static_cast<int>(shared_variables_->size())) {
    num_shared_variables_ = 0;
    return std::move(shared_variables_);
  }
  OwnVariables();
  if (variables_.empty()) return nullptr;
  return std::make_shared<const std::vector<Variable>>(
      std::exchange(variables_, {}));
}

bool ProgramBuilder::AddOpLike(OpId like, absl::Span<const ValueId> operands,
                               absl::Span<const absl::string_view> names) {
  const Op& model = program_.body_.ops[like];
  bool fits = names.size() == model.results.size();
  size_t count = 0;
  ForEachValue(model.arguments, [&](ValueId id) {
    fits = fits && count < operands.size() &&
           program_.value(operands[count]).type == program_.value(id).type;
    ++count;
  });
  if (!fits || count != operands.size()) return false;
  bool is_sorted = true;  // As most are: then none comes twice.
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || FindValue(names[i]) != kNoValue) return false;
    is_sorted = is_sorted && (i == 0 || IsBefore(names[i - 1], names[i]));
    if (!is_sorted && absl::c_linear_search(names.subspan(0, i), names[i])) {
      return false;
    }
  }
  const auto index = static_cast<int32_t>(program_.body_.ops.size());
  // Made where it stays: to move one takes as long as to make it.
  Op& op = program_.body_.ops.emplace_back();
  FillLike(program_.body_.ops[like], operands, &op);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto id = static_cast<ValueId>(program_.values_.size());
    program_.values_by_name_.Insert(names[i], id);
    const ValueId result = program_.body_.ops[like].results[i];
    program_.values_.push_back({.name = std::string(names[i]),
                                .type = program_.value(result).type,
                                .kind = ValueKind::kResult,
                                .index = index,
                                .result = static_cast<int32_t>(i)});
    op.results.push_back(id);
  }
  return true;
}

ValueId ProgramBuilder::FindVariable(absl::string_view name) const {
  const auto it = variables_by_name_.find(name);
  return it == variables_by_name_.end() ? kNoValue : it->second;
}

absl::StatusOr<ValueId> ProgramBuilder::Add(absl::string_view op,
                                            Arguments arguments,
                                            SourceLine source) {
  MICA_ASSIGN_OR_RETURN(const OpDef* def, FindOp(op));
  MICA_ASSIGN_OR_RETURN(auto results, AddOp({.def = def,
                                             .arguments = std::move(arguments),
                                             .source = std::move(source)}));
  return results[0];
}

absl::Status ProgramBuilder::AddUpdate(ValueId target, ValueId value) {
  MICA_RETURN_IF_ERROR(CheckValueId(target));
  MICA_RETURN_IF_ERROR(CheckValueId(value));
  const Value& to = program_.value(target);
  if (to.kind != ValueKind::kInput && to.kind != ValueKind::kVariable) {
    return absl::InvalidArgumentError(absl::StrCat(
        "update of %", to.name, ": neither an input nor a variable"));
  }
  if (!SameShape(*to.type, type(value))) {
    return absl::InvalidArgumentError(
        absl::StrCat("update of %", to.name, ": wants ", to.type->ToString(),
                     ", got ", type(value).ToString()));
  }
  // Most targets are declared before all else.
  if (target >= static_cast<ValueId>(is_updated_.size())) {
    is_updated_.resize(target + 1, false);
  }
  if (is_updated_[target]) {
    return absl::InvalidArgumentError(
        absl::StrCat("%", to.name, " is updated twice"));
  }
  is_updated_[target] = true;
  program_.updates_.push_back(Update{.target = target, .value = value});
  return absl::OkStatus();
}

void ProgramBuilder::AvoidNumbersOf(const Program& other) {
  // Numbers grow: the last ones are the largest, and those of others needn't be
  // read if they come before these.
  absl::string_view largest;
  for (size_t i = other.values_.size(); i-- > 0;) {
    const absl::string_view name = other.values_[i].name;
    if (!absl::ascii_isdigit(name[0]) || !IsBefore(largest, name)) continue;
    int32_t number = 0;  // Larger ones are out of reach.
    if (!absl::c_all_of(name, absl::ascii_isdigit) ||
        !absl::SimpleAtoi(name, &number)) {
      continue;
    }
    next_number_ = std::max(next_number_, int64_t{number} + 1);
    if (name[0] != '0') largest = name;
  }
}

std::shared_ptr<const std::string> ProgramBuilder::InternName(
    absl::string_view name) {
  auto& shared = names_[name];
  if (shared == nullptr) shared = std::make_shared<const std::string>(name);
  return shared;
}

absl::StatusOr<Program> ProgramBuilder::Build(
    absl::Span<const ValueId> outputs) {
  for (ValueId id : outputs) MICA_RETURN_IF_ERROR(CheckValueId(id));
  return BuildBody(outputs);
}

absl::StatusOr<Program> ProgramBuilder::BuildBody(
    absl::Span<const ValueId> outputs) {
  for (ValueId id : outputs) {
    if (id != kNoValue) MICA_RETURN_IF_ERROR(CheckValueId(id));
  }
  program_.body_.returns.assign(outputs.begin(), outputs.end());
  program_.variables_ = TakeVariables();
  for (const auto& [name, def] : opaque_) program_.opaque_defs_.push_back(def);
  std::sort(program_.opaque_defs_.begin(), program_.opaque_defs_.end(),
            [](const auto& a, const auto& b) { return a->name() < b->name(); });
  return std::move(program_);
}

}  // namespace mica
