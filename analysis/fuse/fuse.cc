#include "analysis/fuse/fuse.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/rewrite.h"
#include "framework/base/status.h"

namespace mica {
namespace {

constexpr OpId kNoOp = -1;

// A matrix product with what follows it, to be one mica.linear.
struct LinearMatch {
  OpId product = kNoOp;
  OpId view = kNoOp;  // Between the product and its activation.
  OpId activation = kNoOp;
  std::string activation_name = "none";
};

// A sum and the layer norm of it.
struct AddNormMatch {
  OpId add = kNoOp;
  OpId norm = kNoOp;
};

class Fuser {
 public:
  Fuser(const Program& program, const OpRegistry& ops)
      : program_(program),
        uses_(CountUses(program)),
        consumer_(program.num_values(), kNoOp),
        is_absorbed_(program.ops().size(), false),
        linear_at_(program.ops().size()),
        add_norm_at_(program.ops().size()),
        rewriter_(program, ops) {
    for (size_t i = 0; i < program.ops().size(); ++i) {
      ForEachValue(program.ops()[i].arguments,
                   [&](ValueId id) { consumer_[id] = static_cast<OpId>(i); });
    }
  }

  absl::StatusOr<Program> Run();

 private:
  void MatchLinear(OpId product);
  void MatchAddNorm(OpId norm);
  absl::Status EmitLinear(const LinearMatch& match);
  absl::Status EmitAddNorm(const AddNormMatch& match);
  absl::StatusOr<ValueId> EmitWeight(ValueId matrix, const SourceLine& source);

  const Op& op(OpId id) const { return program_.ops()[id]; }
  const TensorType& TypeOf(const Op& op, int param) const {
    return program_.type(ValueOf(op, param));
  }
  static ValueId ValueOf(const Op& op, int param) {
    const auto* ref = std::get_if<ValueRef>(&op.arguments[param]);
    return ref == nullptr ? kNoValue : ref->id;
  }
  // The one op that reads `value` and nothing else does; kNoOp otherwise.
  OpId OnlyConsumer(ValueId value) const {
    return uses_[value] == 1 ? consumer_[value] : kNoOp;
  }
  // The op that makes `value`, kNoOp for inputs, variables and constants.
  OpId ProducerOf(ValueId value) const {
    const Value& v = program_.value(value);
    return v.kind == ValueKind::kResult ? v.index : kNoOp;
  }

  const Program& program_;
  std::vector<int> uses_;
  std::vector<OpId> consumer_;  // The last one.
  std::vector<bool> is_absorbed_;
  // At the op where a match is emitted: its last one.
  std::vector<std::optional<LinearMatch>> linear_at_;
  std::vector<std::optional<AddNormMatch>> add_norm_at_;
  Rewriter rewriter_;
};

bool IsNumber(const Argument& argument, double wanted) {
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    return static_cast<double>(*integer) == wanted;
  }
  const auto* real = std::get_if<double>(&argument);
  return real != nullptr && *real == wanted;
}

// The word of mica.linear for an activation op; nothing for another op.
std::optional<std::string> ActivationName(const Op& op) {
  const std::string& name = op.def->name();
  if (name == "aten.relu") return "relu";
  if (name == "aten.tanh") return "tanh";
  if (name != "aten.gelu") return std::nullopt;
  return std::get<std::string>(op.arguments[1]) == "tanh" ? "gelu_tanh"
                                                          : "gelu";
}

bool IsPlainView(const Op& op) {
  return op.def->name() == "aten.view" || op.def->name() == "aten._unsafe_view";
}

absl::StatusOr<Program> Fuser::Run() {
  const OpId num_ops = static_cast<OpId>(program_.ops().size());
  for (OpId id = 0; id < num_ops; ++id) {
    MatchLinear(id);
    MatchAddNorm(id);
  }
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  for (OpId id = 0; id < num_ops; ++id) {
    if (linear_at_[id].has_value()) {
      MICA_RETURN_IF_ERROR(EmitLinear(*linear_at_[id]));
    } else if (add_norm_at_[id].has_value()) {
      MICA_RETURN_IF_ERROR(EmitAddNorm(*add_norm_at_[id]));
    } else if (!is_absorbed_[id]) {
      MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op(id)));
    }
  }
  return rewriter_.Finish();
}

void Fuser::MatchLinear(OpId product) {
  const Op& mm = op(product);
  const bool has_bias = mm.def->name() == "aten.addmm";
  if (!has_bias && mm.def->name() != "aten.mm") return;
  const TensorType& result = program_.type(mm.results[0]);
  if (result.dtype != DType::kF32 || !result.is_row_major()) return;
  if (has_bias) {
    // The bias is added to each row as it is.
    const TensorType& bias = TypeOf(mm, 0);
    if (bias.rank() != 1 || bias.dims[0] != result.dims[1] ||
        !IsNumber(mm.arguments[3], 1) || !IsNumber(mm.arguments[4], 1)) {
      return;
    }
  }
  LinearMatch match{.product = product};
  OpId next = OnlyConsumer(mm.results[0]);
  OpId view = kNoOp;
  if (next != kNoOp && IsPlainView(op(next))) {
    view = next;
    next = OnlyConsumer(op(view).results[0]);
  }
  const std::optional<std::string> activation =
      next == kNoOp ? std::nullopt : ActivationName(op(next));
  if (activation.has_value() &&
      program_.type(op(next).results[0]).is_row_major()) {
    match.view = view;
    match.activation = next;
    match.activation_name = *activation;
    is_absorbed_[product] = true;
    if (view != kNoOp) is_absorbed_[view] = true;
  }
  linear_at_[match.activation == kNoOp ? product : match.activation] = match;
}

void Fuser::MatchAddNorm(OpId norm) {
  const Op& layer_norm = op(norm);
  if (layer_norm.def->name() != "aten.native_layer_norm") return;
  if (uses_[layer_norm.results[1]] > 0 || uses_[layer_norm.results[2]] > 0) {
    return;
  }
  const ValueId sum = ValueOf(layer_norm, 0);
  const OpId add = ProducerOf(sum);
  if (add == kNoOp || op(add).def->name() != "aten.add.Tensor" ||
      is_absorbed_[add] || !IsNumber(op(add).arguments[2], 1)) {
    return;
  }
  const TensorType& type = program_.type(sum);
  const bool is_plain = type.dtype == DType::kF32 && type.is_row_major() &&
                        program_.type(layer_norm.results[0]).is_row_major() &&
                        TypeOf(op(add), 0) == type &&
                        TypeOf(op(add), 1) == type;
  // A reader of the sum in between would come before the fused op.
  if (!is_plain || (uses_[sum] > 1 && consumer_[sum] != norm && norm - add > 1))
    return;
  for (OpId id = add + 1; id < norm; ++id) {
    bool reads_sum = false;
    ForEachValue(op(id).arguments,
                 [&](ValueId value) { reads_sum = reads_sum || value == sum; });
    if (reads_sum) return;
  }
  is_absorbed_[add] = true;
  add_norm_at_[norm] = {.add = add, .norm = norm};
}

absl::StatusOr<ValueId> Fuser::EmitWeight(ValueId matrix,
                                          const SourceLine& source) {
  const OpId producer = ProducerOf(matrix);
  if (producer != kNoOp && op(producer).def->name() == "aten.t") {
    return rewriter_.NewId(ValueOf(op(producer), 0));
  }
  return rewriter_.builder().Add("aten.t", {ValueRef{rewriter_.NewId(matrix)}},
                                 source);
}

absl::Status Fuser::EmitLinear(const LinearMatch& match) {
  const Op& mm = op(match.product);
  const bool has_bias = mm.def->name() == "aten.addmm";
  const int first = has_bias ? 1 : 0;
  MICA_ASSIGN_OR_RETURN(ValueId weight,
                        EmitWeight(ValueOf(mm, first + 1), mm.source));
  Argument bias;
  if (has_bias) bias = ValueRef{rewriter_.NewId(ValueOf(mm, 0))};
  MICA_ASSIGN_OR_RETURN(
      ValueId value,
      rewriter_.builder().Add(
          "mica.linear",
          {ValueRef{rewriter_.NewId(ValueOf(mm, first))}, ValueRef{weight},
           bias, Argument(), match.activation_name},
          mm.source));
  if (match.activation == kNoOp) {
    rewriter_.Map(mm.results[0], value);
    return absl::OkStatus();
  }
  if (match.view != kNoOp) {
    rewriter_.Map(mm.results[0], value);
    MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op(match.view)));
    value = rewriter_.NewId(op(match.view).results[0]);
  }
  rewriter_.Map(op(match.activation).results[0], value);
  return absl::OkStatus();
}

absl::Status Fuser::EmitAddNorm(const AddNormMatch& match) {
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

absl::StatusOr<Program> Fuse(const Program& program, const OpRegistry& ops) {
  MICA_ASSIGN_OR_RETURN(Program fused, Fuser(program, ops).Run());
  return RemoveDeadOps(fused, ops);
}

}  // namespace mica
