#include "framework/ir/control_flow.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "glog/logging.h"

namespace mica {
namespace {

constexpr absl::string_view kIfBodies[] = {"then", "else"};
constexpr absl::string_view kWhileBodies[] = {"cond", "body"};
constexpr absl::string_view kCallBodies[] = {"function"};

bool IsPredicate(const TensorType& type) {
  return type.dtype == DType::kBool &&
         std::all_of(type.dims.begin(), type.dims.end(),
                     [](Dim dim) { return dim == 1; });
}

// Checks one op with bodies.
class ControlChecker {
 public:
  ControlChecker(const Op& op, absl::Span<const Value> values)
      : op_(op), values_(values), names_(BodyNames(ControlKindOf(*op.def))) {}

  absl::StatusOr<std::vector<TensorType>> Run(std::vector<TensorType> given) {
    if (op_.bodies.size() != names_.size()) {
      return Error(absl::StrCat("wants ", names_.size(), " bodies, got ",
                                op_.bodies.size()));
    }
    operands_ = BodyOperands(op_);
    num_carried_ = static_cast<size_t>(NumCarried(op_));
    for (size_t i = 0; i < op_.bodies.size(); ++i) {
      if (op_.bodies[i] == nullptr) {
        return Error(absl::StrCat("has no '", names_[i], "'"));
      }
      MICA_RETURN_IF_ERROR(CheckBody(i));
    }
    switch (ControlKindOf(*op_.def)) {
      case ControlKind::kIf:
        return CheckIf(std::move(given));
      case ControlKind::kWhile:
        return CheckWhile(std::move(given));
      default:
        return CheckCall(std::move(given));
    }
  }

 private:
  absl::Status Error(absl::string_view message) const {
    return absl::InvalidArgumentError(
        absl::StrCat(op_.def->name(), ": ", message));
  }
  const TensorType& type(ValueId id) const { return *values_[id].type; }

  absl::Status CheckBody(size_t index) const {
    const Program& body = *op_.bodies[index];
    const absl::string_view name = names_[index];
    if (!body.variables().empty() || !body.updates().empty()) {
      return Error(absl::StrCat(
          "'", name, "' has variables or updates; only the Program has"));
    }
    if (body.depth() >= kMaxBodyDepth) {
      return Error(
          absl::StrCat("bodies in bodies more than ", kMaxBodyDepth, " deep"));
    }
    if (body.inputs().size() != operands_.size()) {
      return Error(absl::StrCat("'", name, "' has ", body.inputs().size(),
                                " inputs for ", operands_.size(), " operands"));
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Value& input = body.value(body.inputs()[i]);
      const Value& operand = values_[operands_[i]];
      const TensorType wanted =
          i < num_carried_ ? OwnedType(*operand.type) : *operand.type;
      if (*input.type == wanted) continue;
      return Error(absl::StrCat("'", name, "' has %", input.name, ": ",
                                input.type->ToString(), " for %", operand.name,
                                ", which is ", wanted.ToString()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<TensorType>> CheckIf(
      std::vector<TensorType> given) const {
    const auto* predicate = std::get_if<ValueRef>(&op_.arguments[0]);
    if (predicate == nullptr || !IsPredicate(type(predicate->id))) {
      return Error(absl::StrCat(
          "wants a bool, or a tensor of one, as predicate, got ",
          predicate == nullptr ? "none" : type(predicate->id).ToString()));
    }
    const Program& then = *op_.bodies[0];
    const Program& other = *op_.bodies[1];
    if (then.outputs().size() != other.outputs().size()) {
      return Error(absl::StrCat("'then' returns ", then.outputs().size(),
                                " values, 'else' ", other.outputs().size()));
    }
    std::vector<TensorType> types;
    for (size_t i = 0; i < then.outputs().size(); ++i) {
      std::vector<TensorType> choices;
      for (const Program* body : {&then, &other}) {
        const ValueId id = body->outputs()[i];
        if (id != kNoValue) choices.push_back(OwnedType(body->type(id)));
      }
      if (choices.empty()) choices.push_back(AbsentResultType());
      types.push_back(choices[0]);
      if (i >= given.size()) continue;
      const auto it = std::find(choices.begin(), choices.end(), given[i]);
      if (it == choices.end()) return WrongType(i, choices[0], given[i]);
      types.back() = *it;
    }
    return CheckCount(std::move(types), given);
  }

  absl::StatusOr<std::vector<TensorType>> CheckCall(
      std::vector<TensorType> given) const {
    const Program& function = *op_.bodies[0];
    std::vector<TensorType> types;
    for (size_t i = 0; i < function.outputs().size(); ++i) {
      const ValueId id = function.outputs()[i];
      if (id == kNoValue) {
        return Error(absl::StrCat("'", function.name(), "' returns none"));
      }
      types.push_back(OwnedType(function.type(id)));
      if (i < given.size() && !(given[i] == types[i])) {
        return WrongType(i, types[i], given[i]);
      }
    }
    return CheckCount(std::move(types), given);
  }

  absl::StatusOr<std::vector<TensorType>> CheckWhile(
      std::vector<TensorType> given) const {
    const Program& cond = *op_.bodies[0];
    if (cond.outputs().size() != 1 || cond.outputs()[0] == kNoValue ||
        !IsPredicate(cond.type(cond.outputs()[0]))) {
      return Error("'cond' must return one bool, or a tensor of one");
    }
    const Program& body = *op_.bodies[1];
    if (body.outputs().size() != num_carried_) {
      return Error(absl::StrCat("'body' returns ", body.outputs().size(),
                                " values for ", num_carried_,
                                " that the loop carries"));
    }
    std::vector<TensorType> types;
    for (size_t i = 0; i < num_carried_; ++i) {
      types.push_back(body.type(body.inputs()[i]));
      if (i < given.size() && !(given[i] == types[i])) {
        return WrongType(i, types[i], given[i]);
      }
    }
    return CheckCount(std::move(types), given);
  }

  absl::Status WrongType(size_t result, const TensorType& wanted,
                         const TensorType& given) const {
    return Error(absl::StrCat("result ", result, " is ", wanted.ToString(),
                              ", but the program says ", given.ToString()));
  }

  absl::StatusOr<std::vector<TensorType>> CheckCount(
      std::vector<TensorType> types,
      const std::vector<TensorType>& given) const {
    if (given.empty() || given.size() == types.size()) return types;
    return Error(absl::StrCat("has ", types.size(),
                              " results, but the program names ",
                              given.size()));
  }

  const Op& op_;
  const absl::Span<const Value> values_;
  const absl::Span<const absl::string_view> names_;
  std::vector<ValueId> operands_;
  size_t num_carried_ = 0;
};

void AppendValues(const Argument& argument, std::vector<ValueId>* values) {
  for (ValueRef ref : std::get<ValueRefs>(argument)) values->push_back(ref.id);
}

void AddFunctions(const Program& program, SeenFunctions* seen,
                  std::vector<const Program*>* functions) {
  if (program.depth() == 0) return;
  for (const Op& op : program.ops()) {
    const bool is_call = ControlKindOf(*op.def) == ControlKind::kCall;
    ForEachNewBody(op, *seen, [&](const auto& body) {
      AddFunctions(*body, seen, functions);
      if (is_call) functions->push_back(body.get());
    });
  }
}

// True if `is` holds for an op or one in its bodies.
template <typename Predicate>
bool AnyOp(const Op& op, const Predicate& is) {
  bool any = is(op);
  for (const auto& body : op.bodies) {
    ForEachOp(*body, [&](const Op& inner) { any = any || is(inner); });
  }
  return any;
}

}  // namespace

ControlKind ControlKindOf(const OpDef& def) {
  if (def.name() == "mica.if") return ControlKind::kIf;
  if (def.name() == "mica.call") return ControlKind::kCall;
  return def.name() == "mica.while" ? ControlKind::kWhile : ControlKind::kNone;
}

absl::Span<const absl::string_view> BodyNames(ControlKind control) {
  switch (control) {
    case ControlKind::kNone:
      break;
    case ControlKind::kIf:
      return kIfBodies;
    case ControlKind::kWhile:
      return kWhileBodies;
    case ControlKind::kCall:
      return kCallBodies;
  }
  return {};
}

std::vector<ValueId> BodyOperands(const Op& op) {
  std::vector<ValueId> operands;
  const ControlKind kind = ControlKindOf(*op.def);
  if (kind != ControlKind::kIf) AppendValues(op.arguments[0], &operands);
  if (kind != ControlKind::kCall) AppendValues(op.arguments[1], &operands);
  return operands;
}

int NumCarried(const Op& op) {
  if (ControlKindOf(*op.def) != ControlKind::kWhile) return 0;
  return static_cast<int>(std::get<ValueRefs>(op.arguments[0]).size());
}

TensorType OwnedType(const TensorType& type) {
  TensorType owned = type;
  if (!type.strides.empty() && !type.is_dense()) owned.strides.clear();
  return owned;
}

absl::StatusOr<std::vector<TensorType>> ControlTypes(
    const Op& op, std::vector<TensorType> given,
    absl::Span<const Value> values) {
  return ControlChecker(op, values).Run(std::move(given));
}

OpId CountOps(const Program& program) {
  if (program.depth() == 0) return static_cast<OpId>(program.ops().size());
  OpId count = 0;
  ForEachOp(program, [&](const Op&) { ++count; });
  return count;
}

std::vector<const Program*> FunctionsOf(const Program& program) {
  SeenFunctions seen;
  std::vector<const Program*> functions;
  AddFunctions(program, &seen, &functions);
  return functions;
}

const Op& OpAt(const Program& program, OpId flat_id) {
  if (program.depth() == 0) return program.ops()[flat_id];
  const Op* found = nullptr;
  ForEachOp(program, [&](const Op& op) {
    if (flat_id-- == 0) found = &op;
  });
  CHECK(found != nullptr) << "no op with this flat id";
  return *found;
}

bool HasEffect(const Op& op) {
  return AnyOp(op, [](const Op& inner) { return inner.def->has_effect(); });
}

bool IsOpaque(const Op& op) {
  return AnyOp(op, [](const Op& inner) { return inner.def->is_opaque(); });
}

}  // namespace mica
