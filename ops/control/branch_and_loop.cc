// Branches, loops and calls. Their bodies give the types of their results.

#include "ops/control/families.h"

namespace mica {
namespace {

absl::StatusOr<TensorTypes> InferSize(const OpCall& /*call*/) {
  return TensorTypes{ScalarType(DType::kI64)};
}

// Sizes are known where types are inferred.
absl::StatusOr<TensorTypes> RequireSize(const OpCall& call) {
  const int64_t a = call.Int(0), b = call.Int(2);
  const std::string& relation = call.String(1);
  const bool holds = relation == "<"    ? a < b
                     : relation == "<=" ? a <= b
                     : relation == ">"  ? a > b
                     : relation == ">=" ? a >= b
                     : relation == "==" ? a == b
                                        : relation == "!=" && a != b;
  if (holds) return TensorTypes{};
  return absl::InvalidArgumentError(
      absl::StrCat("sizes that the program doesn't hold for: wants ", a, " ",
                   relation, " ", b));
}

}  // namespace

void RegisterControlOps(OpRegistry& registry) {
  registry.Add(
      OpDef("mica::if(Tensor predicate, Tensor[] operands) -> Tensor[]")
          .Doc("What `then` returns of the operands if the predicate, one "
               "bool, is true, else what `else` does. Only that one runs."));
  registry.Add(
      OpDef("mica::while(Tensor[] initial, Tensor[] invariants) -> Tensor[]")
          .Doc("Carries values, at first the initial ones, from round to "
               "round: as long as `cond` returns true of them and the "
               "invariants, what `body` returns of them is carried next. "
               "Gives the last."));
  registry.Add(OpDef("mica::call(Tensor[] operands) -> Tensor[]")
                   .Doc("What a function gives of the operands. All calls of "
                        "it share its one body."));
  registry.Add(OpDef("mica::size(SymInt size) -> Scalar")
                   .Doc("The size as a host scalar, Python's int.")
                   .Infer(InferSize));
  registry.Add(
      OpDef("mica::require_size(SymInt a, str relation, SymInt b) -> ()")
          .Doc("Which sizes the Program holds for: those of which a is <, <=, "
               ">, >=, == or != b, as `relation` says. Checked as symbols get "
               "their sizes.")
          .Infer(RequireSize));
}

}  // namespace mica
