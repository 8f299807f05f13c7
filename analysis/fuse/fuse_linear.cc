#include "analysis/fuse/fuse_linear.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/program_facts.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/ir/fetch_ahead.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

// A matrix product with what follows it, to be one mica.linear.
struct LinearMatch {
  OpId product = kNoOp;
  ValueId bias = kNoValue;
  std::string activation = "none";
  ValueId residual = kNoValue;
  // What follows the product, in order: views, which stay, and ops that the
  // linear does.
  std::vector<OpId> chain;
};

// A sum and the layer norm of it.
struct AddNormMatch {
  OpId add = kNoOp;
  OpId norm = kNoOp;
};

class LinearFuser {
 public:
  LinearFuser(const Program& program, const OpRegistry& ops,
              const KernelRegistry& kernels)
      : program_(program),
        kernels_(kernels),
        facts_(program),
        is_absorbed_(program.ops().size(), false),
        linear_at_(program.ops().size()),
        add_norm_at_(program.ops().size()),
        is_merged_product_(program.ops().size(), false),
        rewriter_(program, ops) {}

  // Nothing if there is nothing to fuse.
  absl::StatusOr<std::optional<Program>> Run();

 private:
  void MatchLinear(OpId product);
  // Takes the op `next`, which reads `value`, into the match if it fits.
  bool Extend(ValueId value, OpId next, LinearMatch& match) const;
  bool TakeBias(ValueId value, const Op& add, LinearMatch& match) const;
  bool TakeResidual(ValueId value, const Op& add, LinearMatch& match) const;
  bool FeedsNorm(ValueId value) const;
  void MatchAddNorm(OpId norm);
  bool IsForWeightsAlone(OpId id) const;
  absl::Status EmitLinear(const LinearMatch& match);
  absl::Status EmitAddNorm(const AddNormMatch& match);
  absl::StatusOr<ValueId> EmitWeight(ValueId matrix, const SourceLine& source);
  absl::StatusOr<Argument> EmitResidual(const LinearMatch& match);

  const Op& op(OpId id) const { return program_.ops()[id]; }
  const TensorType& TypeOf(const Op& op, int param) const {
    return program_.type(ValueOf(op, param));
  }
  // The parameter of a product's left factor; the other is behind it.
  int FirstFactorOf(OpId product) const {
    return facts_.Is(product, "aten.addmm") ? 1 : 0;
  }
  static ValueId ValueOf(const Op& op, int param) {
    return ProgramFacts::ValueOf(op, param);
  }

  const Program& program_;
  const KernelRegistry& kernels_;
  const ProgramFacts facts_;
  std::vector<bool> is_absorbed_;
  // At the op where a match is emitted: its last one.
  std::vector<std::optional<LinearMatch>> linear_at_;
  std::vector<std::optional<AddNormMatch>> add_norm_at_;
  std::vector<bool> is_merged_product_;
  size_t num_linears_ = 0;
  bool has_norms_ = false;
  Rewriter rewriter_;
};

// Activations that mica.linear has.
bool IsOfLinear(absl::string_view activation) {
  return activation == "relu" || activation == "tanh" || activation == "gelu" ||
         activation == "gelu_tanh" || activation == "sigmoid" ||
         activation == "silu";
}

bool IsPlainView(const Op& op) {
  return op.def->name() == "aten.view" || op.def->name() == "aten._unsafe_view";
}

absl::StatusOr<std::optional<Program>> LinearFuser::Run() {
  const OpId num_ops = static_cast<OpId>(program_.ops().size());
  for (OpId id = 0; id < num_ops; ++id) {
    MatchLinear(id);
    MatchAddNorm(id);
  }
  if (num_linears_ == 0 && !has_norms_) return std::nullopt;
  // A transposed weight at most comes with each.
  rewriter_.ReserveMoreOps(num_linears_);
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  for (OpId id = 0; id < num_ops; ++id) {
    FetchAhead(program_.ops(), id);
    if (linear_at_[id].has_value()) {
      MICA_RETURN_IF_ERROR(EmitLinear(*linear_at_[id]));
    } else if (add_norm_at_[id].has_value()) {
      MICA_RETURN_IF_ERROR(EmitAddNorm(*add_norm_at_[id]));
    } else if (!is_absorbed_[id] && !IsForWeightsAlone(id)) {
      MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op(id)));
    }
  }
  return rewriter_.Finish();
}

// True for a transposition that only merged products read, as their weight:
// EmitWeight() takes what it transposes. To leave it out here is cheaper than
// to remove what is dead from the whole Program.
bool LinearFuser::IsForWeightsAlone(OpId id) const {
  if (!facts_.Is(id, "aten.t")) return false;
  const ValueId value = op(id).results[0];
  const absl::Span<const OpId> readers = facts_.ReadersOf(value);
  return !readers.empty() &&
         facts_.NumUses(value) == static_cast<int>(readers.size()) &&
         absl::c_all_of(readers, [&](OpId reader) {
           return is_merged_product_[reader] &&
                  value == ValueOf(op(reader), FirstFactorOf(reader) + 1) &&
                  value != ValueOf(op(reader), FirstFactorOf(reader));
         });
}

bool LinearFuser::FeedsNorm(ValueId value) const {
  for (OpId id : facts_.ReadersOf(value)) {
    if (facts_.Is(id, "aten.native_layer_norm")) return true;
  }
  return false;
}

// value + bias[n], the product having n columns.
bool LinearFuser::TakeBias(ValueId value, const Op& add,
                           LinearMatch& match) const {
  const ValueId bias = ValueOf(add, ValueOf(add, 0) == value);
  if (match.bias != kNoValue || match.activation != "none" ||
      bias == kNoValue) {
    return false;
  }
  const TensorType& type = program_.type(value);
  const TensorType& product = program_.type(op(match.product).results[0]);
  const TensorType& row = program_.type(bias);
  if (row.rank() != 1 || row.dtype != type.dtype || row.is_scalar ||
      type.dims.back() != product.dims[1] || row.dims[0] != product.dims[1]) {
    return false;
  }
  match.bias = bias;
  return true;
}

// value + a tensor of its type. A layer norm takes the sum rather itself.
bool LinearFuser::TakeResidual(ValueId value, const Op& add,
                               LinearMatch& match) const {
  const ValueId residual = ValueOf(add, ValueOf(add, 0) == value);
  if (match.residual != kNoValue || residual == kNoValue || residual == value ||
      !(program_.type(residual) == program_.type(value)) ||
      FeedsNorm(add.results[0])) {
    return false;
  }
  match.residual = residual;
  return true;
}

bool LinearFuser::Extend(ValueId value, OpId next, LinearMatch& match) const {
  const Op& reader = op(next);
  if (is_absorbed_[next] || linear_at_[next].has_value() ||
      reader.results.size() != 1 ||
      !program_.type(reader.results[0]).is_row_major() ||
      program_.type(reader.results[0]).rank() == 0) {
    return false;
  }
  if (IsPlainView(reader)) return true;
  const auto activation = ActivationName(reader);
  if (activation.has_value() && IsOfLinear(*activation)) {
    if (match.activation != "none" || match.residual != kNoValue) return false;
    match.activation = *activation;
    return true;
  }
  return reader.def->name() == "aten.add.Tensor" &&
         IsNumber(reader.arguments[2], 1) && match.residual == kNoValue &&
         program_.type(reader.results[0]) == program_.type(value) &&
         (TakeBias(value, reader, match) || TakeResidual(value, reader, match));
}

void LinearFuser::MatchLinear(OpId product) {
  const Op& mm = op(product);
  const bool has_bias = mm.def->name() == "aten.addmm";
  if (!has_bias && mm.def->name() != "aten.mm") return;
  const TensorType& result = program_.type(mm.results[0]);
  if (result.dtype != DType::kF32 || !result.is_row_major() ||
      !kernels_.HasFast("mica.linear", result.dtype)) {
    return;
  }
  LinearMatch match{.product = product};
  if (has_bias) {
    // The bias is added to each row as it is.
    const TensorType& bias = TypeOf(mm, 0);
    if (bias.rank() != 1 || bias.dims[0] != result.dims[1] ||
        !IsNumber(mm.arguments[3], 1) || !IsNumber(mm.arguments[4], 1)) {
      return;
    }
    match.bias = ValueOf(mm, 0);
  }
  ValueId value = mm.results[0];
  for (OpId next = facts_.OnlyReader(value);
       next != kNoOp && Extend(value, next, match);
       next = facts_.OnlyReader(value)) {
    match.chain.push_back(next);
    value = op(next).results[0];
  }
  // Views at the end are no part of it.
  while (!match.chain.empty() && IsPlainView(op(match.chain.back()))) {
    match.chain.pop_back();
  }
  OpId last = product;
  for (OpId id : match.chain) {
    is_absorbed_[last] = true;
    last = id;
  }
  is_merged_product_[product] = true;
  linear_at_[last] = std::move(match);
  ++num_linears_;
}

void LinearFuser::MatchAddNorm(OpId norm) {
  const Op& layer_norm = op(norm);
  if (layer_norm.def->name() != "aten.native_layer_norm") return;
  if (facts_.NumUses(layer_norm.results[1]) > 0 ||
      facts_.NumUses(layer_norm.results[2]) > 0) {
    return;
  }
  const ValueId sum = ValueOf(layer_norm, 0);
  const OpId add = facts_.ProducerOf(sum);
  if (!facts_.Is(add, "aten.add.Tensor") || is_absorbed_[add] ||
      linear_at_[add].has_value() || !IsNumber(op(add).arguments[2], 1)) {
    return;
  }
  const TensorType& type = program_.type(sum);
  const bool is_plain = kernels_.HasFast("mica.add_layer_norm", type.dtype) &&
                        type.is_row_major() &&
                        program_.type(layer_norm.results[0]).is_row_major() &&
                        TypeOf(op(add), 0) == type &&
                        TypeOf(op(add), 1) == type;
  if (!is_plain) return;
  // A reader of the sum in between would come before the fused op.
  for (OpId id : facts_.ReadersOf(sum)) {
    if (id < norm) return;
  }
  is_absorbed_[add] = true;
  add_norm_at_[norm] = {.add = add, .norm = norm};
  has_norms_ = true;
}

absl::StatusOr<ValueId> LinearFuser::EmitWeight(ValueId matrix,
                                                const SourceLine& source) {
  const OpId producer = facts_.ProducerOf(matrix);
  if (facts_.Is(producer, "aten.t")) {
    return rewriter_.NewId(ValueOf(op(producer), 0));
  }
  return rewriter_.builder().Add("aten.t", {ValueRef{rewriter_.NewId(matrix)}},
                                 source);
}

// The residual as rows of the product.
absl::StatusOr<Argument> LinearFuser::EmitResidual(const LinearMatch& match) {
  if (match.residual == kNoValue) return Argument();
  const Op& mm = op(match.product);
  const Dims& dims = program_.type(mm.results[0]).dims;
  const ValueId residual = rewriter_.NewId(match.residual);
  if (program_.type(match.residual).dims == dims) return ValueRef{residual};
  MICA_ASSIGN_OR_RETURN(
      ValueId rows,
      rewriter_.builder().Add(
          "aten.view",
          {ValueRef{residual}, std::vector<int64_t>(dims.begin(), dims.end())},
          mm.source));
  return ValueRef{rows};
}

absl::Status LinearFuser::EmitLinear(const LinearMatch& match) {
  const Op& mm = op(match.product);
  const int first = FirstFactorOf(match.product);
  MICA_ASSIGN_OR_RETURN(ValueId weight,
                        EmitWeight(ValueOf(mm, first + 1), mm.source));
  Argument bias;
  if (match.bias != kNoValue) bias = ValueRef{rewriter_.NewId(match.bias)};
  MICA_ASSIGN_OR_RETURN(Argument residual, EmitResidual(match));
  MICA_ASSIGN_OR_RETURN(
      ValueId value, rewriter_.builder().Add(
                         "mica.linear",
                         {ValueRef{rewriter_.NewId(ValueOf(mm, first))},
                          ValueRef{weight}, bias, residual, match.activation},
                         mm.source));
  rewriter_.Map(mm.results[0], value);
  for (OpId id : match.chain) {
    if (IsPlainView(op(id))) {
      MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op(id)));
      value = rewriter_.NewId(op(id).results[0]);
    }
    rewriter_.Map(op(id).results[0], value);
  }
  return absl::OkStatus();
}

absl::Status LinearFuser::EmitAddNorm(const AddNormMatch& match) {
  const Op& add = op(match.add);
  const Op& norm = op(match.norm);
  Arguments arguments = {ValueRef{rewriter_.NewId(ValueOf(add, 0))},
                         ValueRef{rewriter_.NewId(ValueOf(add, 1))}};
  for (int param = 1; param < 5; ++param) {
    arguments.push_back(norm.arguments[param]);
    if (auto* ref = std::get_if<ValueRef>(&arguments.back())) {
      ref->id = rewriter_.NewId(ref->id);
    }
  }
  ProgramBuilder& builder = rewriter_.builder();
  MICA_ASSIGN_OR_RETURN(const OpDef* def,
                        builder.FindOp("mica.add_layer_norm"));
  MICA_ASSIGN_OR_RETURN(auto results,
                        builder.AddOp({.def = def,
                                       .arguments = std::move(arguments),
                                       .source = norm.source}));
  rewriter_.Map(add.results[0], results[0]);
  rewriter_.Map(norm.results[0], results[1]);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> FuseLinear(Program program, const OpRegistry& ops,
                                   const KernelRegistry& kernels) {
  MICA_ASSIGN_OR_RETURN(auto fused, LinearFuser(program, ops, kernels).Run());
  if (!fused.has_value()) return program;
  const TraceSpan dead("pass", "remove dead ops");
  return RemoveDeadOps(*std::move(fused), ops);
}

}  // namespace mica
