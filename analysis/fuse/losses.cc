#include "analysis/fuse/losses.h"

#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "analysis/passes/program_facts.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// Reductions, as torch numbers them.
constexpr int64_t kNone = 0, kMean = 1, kSum = 2;

class Speller {
 public:
  Speller(const Program& program, const OpRegistry& ops)
      : program_(program), rewriter_(program, ops) {}

  bool HasLosses() const {
    return absl::c_any_of(program_.ops(), [this](const Op& op) {
      return IsLoss(op) || IsGradient(op);
    });
  }
  absl::StatusOr<Program> Run();

 private:
  // Two tensors of one floating-point type and dims, from `first` on, which
  // vector loops have, and a reduction behind them.
  bool HasPair(const Op& op, int first) const;
  bool IsLoss(const Op& op) const;
  bool IsGradient(const Op& op) const;
  absl::StatusOr<ValueId> EmitLoss(const Op& op);
  absl::StatusOr<ValueId> EmitGradient(const Op& op);
  // The difference of the pair, of the type that the op gives each element.
  absl::StatusOr<ValueId> EmitDifference(const Op& op, int first);

  absl::StatusOr<ValueId> Add(absl::string_view name, Arguments arguments,
                              const Op& from) {
    return rewriter_.builder().Add(name, std::move(arguments), from.source);
  }
  // What the op gives, by another op.
  absl::StatusOr<ValueId> AddResult(absl::string_view name, Arguments arguments,
                                    const Op& from) {
    MICA_ASSIGN_OR_RETURN(const OpDef* def, rewriter_.builder().FindOp(name));
    MICA_ASSIGN_OR_RETURN(auto results,
                          rewriter_.builder().AddOp(
                              {.def = def,
                               .arguments = std::move(arguments),
                               .types = {program_.type(from.results[0])},
                               .names = {program_.value(from.results[0]).name},
                               .source = from.source}));
    return results[0];
  }
  const TensorType& TypeOf(const Op& op, int param) const {
    return program_.type(ProgramFacts::ValueOf(op, param));
  }
  ValueRef NewRef(const Op& op, int param) const {
    return ValueRef{rewriter_.NewId(ProgramFacts::ValueOf(op, param))};
  }

  const Program& program_;
  Rewriter rewriter_;
};

int64_t ReductionOf(const Op& op, int param) {
  const auto* number = std::get_if<int64_t>(&op.arguments[param]);
  return number == nullptr ? -1 : *number;
}

bool Speller::HasPair(const Op& op, int first) const {
  const TensorType& x = TypeOf(op, first);
  const TensorType& y = TypeOf(op, first + 1);
  const int64_t reduction = ReductionOf(op, first + 2);
  return (x.dtype == DType::kF32 || x.dtype == DType::kF64) &&
         SameShape(x, y) && x.is_static() && x.num_elements() > 0 &&
         reduction >= kNone && reduction <= kSum &&
         program_.type(op.results[0]).dtype == x.dtype;
}

bool Speller::IsLoss(const Op& op) const {
  return op.def->name() == "aten.mse_loss" && HasPair(op, 0);
}

// As ATen has it, the number of elements is divided by before the slope.
bool Speller::IsGradient(const Op& op) const {
  if (op.def->name() != "aten.mse_loss_backward" || !HasPair(op, 1)) {
    return false;
  }
  const TensorType& slope = TypeOf(op, 0);
  const TensorType& x = TypeOf(op, 1);
  return slope.dtype == x.dtype && !slope.is_scalar &&
         (slope.rank() == 0 || slope.dims == x.dims);
}

absl::StatusOr<ValueId> Speller::EmitDifference(const Op& op, int first) {
  return Add("aten.sub.Tensor", {NewRef(op, first), NewRef(op, first + 1)}, op);
}

absl::StatusOr<ValueId> Speller::EmitLoss(const Op& op) {
  MICA_ASSIGN_OR_RETURN(ValueId difference, EmitDifference(op, 0));
  const Arguments squared = {ValueRef{difference}, int64_t{2}};
  const int64_t reduction = ReductionOf(op, 2);
  if (reduction == kNone) {
    return AddResult("aten.pow.Tensor_Scalar", squared, op);
  }
  MICA_ASSIGN_OR_RETURN(ValueId square,
                        Add("aten.pow.Tensor_Scalar", squared, op));
  return AddResult(reduction == kMean ? "aten.mean" : "aten.sum",
                   {ValueRef{square}}, op);
}

absl::StatusOr<ValueId> Speller::EmitGradient(const Op& op) {
  MICA_ASSIGN_OR_RETURN(ValueId difference, EmitDifference(op, 1));
  const double factor =
      ReductionOf(op, 3) == kMean
          ? 2.0 / static_cast<double>(TypeOf(op, 1).num_elements())
          : 2.0;
  MICA_ASSIGN_OR_RETURN(
      ValueId scaled,
      Add("aten.mul.Scalar", {ValueRef{difference}, factor}, op));
  return AddResult("aten.mul.Tensor", {ValueRef{scaled}, NewRef(op, 0)}, op);
}

absl::StatusOr<Program> Speller::Run() {
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  for (const Op& op : program_.ops()) {
    if (!IsLoss(op) && !IsGradient(op)) {
      MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op));
      continue;
    }
    absl::StatusOr<ValueId> value =
        IsLoss(op) ? EmitLoss(op) : EmitGradient(op);
    if (!value.ok()) return Annotate(value.status(), Describe(op));
    rewriter_.Map(op.results[0], *value);
  }
  return rewriter_.Finish();
}

}  // namespace

absl::StatusOr<Program> SpellOutLosses(Program program, const OpRegistry& ops) {
  Speller speller(program, ops);
  if (!speller.HasLosses()) return program;
  return speller.Run();
}

}  // namespace mica
