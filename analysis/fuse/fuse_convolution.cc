#include "analysis/fuse/fuse_convolution.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/passes/dead_ops.h"
#include "analysis/passes/program_facts.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// A convolution, a batch norm, or both, with what follows.
struct Match {
  OpId convolution = kNoOp;
  OpId norm = kNoOp;
  OpId add = kNoOp;
  ValueId residual = kNoValue;
  std::string activation = "none";
  OpId last = kNoOp;  // Where the fused op is emitted.
};

// Params of a batch norm by running statistics, of both its forms.
struct NormParams {
  int training = -1, eps = 0;
};

std::optional<NormParams> NormParamsOf(const Op& op) {
  const std::string& name = op.def->name();
  if (name == "aten._native_batch_norm_legit_no_training") {
    return NormParams{.eps = 6};
  }
  if (name == "aten.native_batch_norm") {
    return NormParams{.training = 5, .eps = 7};
  }
  return std::nullopt;
}

// Whether a norm of `x` may have operands of this type.
bool MayFold(const TensorType& type, DType x) {
  return type.dtype == x || (IsHalf(x) && type.dtype == DType::kF32);
}

// Whether an activation gives the same of a number as of the rounded one,
// rounded itself.
bool IsRoundedAlike(absl::string_view activation) {
  return activation == "relu" || activation == "relu6";
}

class ConvolutionFuser {
 public:
  ConvolutionFuser(const Program& program, const OpRegistry& ops,
                   const KernelRegistry& kernels)
      : program_(program),
        kernels_(kernels),
        facts_(program),
        is_absorbed_(program.ops().size(), false),
        match_at_(program.ops().size()),
        rewriter_(program, ops) {}

  // Nothing if there is nothing to fuse.
  absl::StatusOr<std::optional<Program>> Run();

 private:
  // Whether there is a kernel for `name` in float32 or 16 bits.
  bool HasKernel(absl::string_view name, DType dtype) const;
  // One of 16 bits needs a norm behind it, and a kernel that computes both
  // before it rounds.
  bool IsConvolution(const Op& op) const;
  bool IsHalfConvolution(const Op& op) const;
  bool IsNorm(const Op& op) const;
  std::optional<Match> FindMatch(OpId first) const;
  // Whether the result has two axes or fewer beside its channels, as kernels of
  // what is fused want it.
  bool IsPlanar(OpId id) const {
    return !op(id).results.empty() &&
           program_.type(op(id).results[0]).rank() <= 4;
  }
  // The residual of `add` beside `value`; kNoValue if it can't be one.
  ValueId ResidualOf(const Op& add, ValueId value, OpId first) const;
  absl::Status Emit(const Match& match);
  absl::StatusOr<ValueId> EmitConvolution(const Match& match);
  absl::StatusOr<ValueId> EmitScale(const Match& match);
  // A norm's scale and shift of channels, in float32.
  absl::StatusOr<Arguments> AddScale(const Op& norm);
  absl::StatusOr<absl::InlinedVector<ValueId, 1>> Add(
      absl::string_view name, Arguments arguments, const SourceLine& source,
      std::vector<TensorType> types = {});
  // `op`'s argument with the new Program's values.
  Argument NewArgument(const Op& op, int param) const;
  // The same in float32 if it has 16 bits.
  absl::StatusOr<Argument> WideArgument(const Op& op, int param);
  // gamma, beta, mean, variance and eps of a norm.
  absl::Status AppendNorm(const Op& norm, Arguments& arguments);

  const Op& op(OpId id) const { return program_.ops()[id]; }
  static ValueId ValueOf(const Op& op, int param) {
    return ProgramFacts::ValueOf(op, param);
  }

  const Program& program_;
  const KernelRegistry& kernels_;
  const ProgramFacts facts_;
  std::vector<bool> is_absorbed_;
  std::vector<std::optional<Match>> match_at_;
  Rewriter rewriter_;
};

absl::StatusOr<std::optional<Program>> ConvolutionFuser::Run() {
  bool has_matches = false;
  const OpId num_ops = static_cast<OpId>(program_.ops().size());
  for (OpId id = 0; id < num_ops; ++id) {
    if (is_absorbed_[id]) continue;
    const std::optional<Match> match = FindMatch(id);
    if (!match.has_value()) continue;
    for (OpId absorbed : {match->convolution, match->norm, match->add}) {
      if (absorbed != kNoOp) is_absorbed_[absorbed] = true;
    }
    is_absorbed_[match->last] = true;
    match_at_[match->last] = match;
    has_matches = true;
  }
  if (!has_matches) return std::nullopt;
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  for (OpId id = 0; id < num_ops; ++id) {
    if (match_at_[id].has_value()) {
      MICA_RETURN_IF_ERROR(Emit(*match_at_[id]));
    } else if (!is_absorbed_[id]) {
      MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op(id)));
    }
  }
  return rewriter_.Finish();
}

bool ConvolutionFuser::HasKernel(absl::string_view name, DType dtype) const {
  return (dtype == DType::kF32 || IsHalf(dtype)) &&
         kernels_.HasFast(name, dtype);
}

bool ConvolutionFuser::IsConvolution(const Op& op) const {
  return op.def->name() == "aten.convolution" &&
         (program_.type(op.results[0]).dtype == DType::kF32 ||
          IsHalfConvolution(op)) &&
         !std::get<bool>(op.arguments[6]);
}

bool ConvolutionFuser::IsHalfConvolution(const Op& op) const {
  const TensorType& out = program_.type(op.results[0]);
  const auto is_plain = [&](int param) {
    const ValueId id = ValueOf(op, param);
    return id == kNoValue || (program_.type(id).dtype == out.dtype &&
                              program_.type(id).is_dense());
  };
  return IsHalf(out.dtype) && out.rank() == 4 && out.num_elements() > 0 &&
         HasKernel("mica.scaled_convolution", out.dtype) && is_plain(0) &&
         is_plain(1) && is_plain(2) && std::get<int64_t>(op.arguments[8]) == 1;
}

// A norm by running statistics whose only read result is the first.
bool ConvolutionFuser::IsNorm(const Op& op) const {
  const std::optional<NormParams> params = NormParamsOf(op);
  if (!params.has_value()) return false;
  if (params->training >= 0) {
    const auto* training = std::get_if<bool>(&op.arguments[params->training]);
    if (training == nullptr || *training) return false;
  }
  const DType x = program_.type(op.results[0]).dtype;
  if (!HasKernel("mica.scale_channels", x)) return false;
  for (int param = 0; param <= 4; ++param) {
    const ValueId id = ValueOf(op, param);
    const bool is_optional = param == 1 || param == 2;
    if (id == kNoValue ? !is_optional : !MayFold(program_.type(id), x)) {
      return false;
    }
  }
  for (size_t i = 1; i < op.results.size(); ++i) {
    if (facts_.NumUses(op.results[i]) > 0) return false;
  }
  return true;
}

ValueId ConvolutionFuser::ResidualOf(const Op& add, ValueId value,
                                     OpId first) const {
  if (add.def->name() != "aten.add.Tensor" || !IsNumber(add.arguments[2], 1)) {
    return kNoValue;
  }
  const ValueId other =
      ValueOf(add, 0) == value ? ValueOf(add, 1) : ValueOf(add, 0);
  if (other == kNoValue || other == value) return kNoValue;
  const TensorType& type = program_.type(other);
  if (type.dtype != program_.type(value).dtype || type.is_scalar ||
      type.dims != program_.type(value).dims) {
    return kNoValue;
  }
  // Of two convolutions that are added the later one takes the sum, so that
  // the other's operands needn't outlive it.
  const Value& producer = program_.value(other);
  const bool is_before =
      producer.kind != ValueKind::kResult || producer.index < first;
  return is_before ? other : kNoValue;
}

std::optional<Match> ConvolutionFuser::FindMatch(OpId first) const {
  Match match;
  OpId next = first;
  ValueId value = kNoValue;
  // Takes `id` as the last op so far.
  auto take = [&](OpId id) {
    match.last = id;
    value = op(id).results[0];
    next = facts_.OnlyReader(value);
  };
  if (IsConvolution(op(first))) {
    match.convolution = first;
    take(first);
  }
  const bool has_kernels = IsPlanar(first);
  if (next != kNoOp && IsNorm(op(next)) &&
      (value == kNoValue ? has_kernels : ValueOf(op(next), 0) == value)) {
    match.norm = next;
    take(next);
  }
  if (match.last == kNoOp) return std::nullopt;
  if (match.norm == kNoOp && IsHalf(program_.type(value).dtype)) {
    return std::nullopt;
  }
  if (!has_kernels) {
    // The norm can still be folded.
    if (match.norm == kNoOp) return std::nullopt;
    return match;
  }
  const bool may_add =
      match.convolution != kNoOp &&
      std::get<int64_t>(op(match.convolution).arguments[8]) == 1;
  if (may_add && next != kNoOp) {
    match.residual = ResidualOf(op(next), value, first);
    if (match.residual != kNoValue) {
      match.add = next;
      take(next);
    }
  }
  if (next != kNoOp) {
    const auto name = ActivationName(op(next));
    if (name.has_value() &&
        (!IsHalf(program_.type(value).dtype) || IsRoundedAlike(*name))) {
      match.activation = *name;
      take(next);
    }
  }
  if (match.last == match.convolution) return std::nullopt;
  return match;
}

Argument ConvolutionFuser::NewArgument(const Op& op, int param) const {
  Argument argument = op.arguments[param];
  if (auto* ref = std::get_if<ValueRef>(&argument)) {
    ref->id = rewriter_.NewId(ref->id);
  }
  return argument;
}

absl::StatusOr<absl::InlinedVector<ValueId, 1>> ConvolutionFuser::Add(
    absl::string_view name, Arguments arguments, const SourceLine& source,
    std::vector<TensorType> types) {
  ProgramBuilder& builder = rewriter_.builder();
  MICA_ASSIGN_OR_RETURN(const OpDef* def, builder.FindOp(name));
  return builder.AddOp({.def = def,
                        .arguments = std::move(arguments),
                        .types = std::move(types),
                        .source = source});
}

absl::StatusOr<Argument> ConvolutionFuser::WideArgument(const Op& op,
                                                        int param) {
  Argument argument = NewArgument(op, param);
  const ValueId id = ValueOf(op, param);
  if (id == kNoValue || !IsHalf(program_.type(id).dtype)) return argument;
  TensorType wide = program_.type(id);
  wide.dtype = DType::kF32;
  MICA_ASSIGN_OR_RETURN(auto results,
                        Add("aten._to_copy", {argument, wide.dtype}, op.source,
                            {std::move(wide)}));
  return ValueRef{results[0]};
}

absl::Status ConvolutionFuser::AppendNorm(const Op& norm,
                                          Arguments& arguments) {
  for (int param = 1; param <= 4; ++param) {
    MICA_ASSIGN_OR_RETURN(Argument argument, WideArgument(norm, param));
    arguments.push_back(std::move(argument));
  }
  arguments.push_back(norm.arguments[NormParamsOf(norm)->eps]);
  return absl::OkStatus();
}

absl::StatusOr<ValueId> ConvolutionFuser::EmitConvolution(const Match& match) {
  const Op& convolution = op(match.convolution);
  const bool is_half = IsHalf(program_.type(convolution.results[0]).dtype);
  Argument weight = NewArgument(convolution, 1);
  Argument bias = NewArgument(convolution, 2);
  Arguments scales;  // And shifts.
  if (is_half) {
    MICA_ASSIGN_OR_RETURN(scales, AddScale(op(match.norm)));
  } else if (match.norm != kNoOp) {
    Arguments arguments = {weight, bias};
    MICA_RETURN_IF_ERROR(AppendNorm(op(match.norm), arguments));
    MICA_ASSIGN_OR_RETURN(auto folded,
                          Add("mica.fold_batch_norm", std::move(arguments),
                              op(match.norm).source));
    weight = ValueRef{folded[0]};
    bias = ValueRef{folded[1]};
  }
  Arguments arguments = {NewArgument(convolution, 0), weight, bias};
  for (int param = 3; param <= 8; ++param) {
    arguments.push_back(convolution.arguments[param]);
  }
  absl::string_view name = "aten.convolution";
  if (IsPlanar(match.convolution)) {
    name = is_half ? "mica.scaled_convolution" : "mica.convolution";
    arguments.push_back(match.residual == kNoValue
                            ? Argument()
                            : ValueRef{rewriter_.NewId(match.residual)});
    arguments.push_back(match.activation);
  }
  for (Argument& scale : scales) arguments.push_back(std::move(scale));
  MICA_ASSIGN_OR_RETURN(auto results,
                        Add(name, std::move(arguments), convolution.source,
                            {program_.type(op(match.last).results[0])}));
  return results[0];
}

absl::StatusOr<Arguments> ConvolutionFuser::AddScale(const Op& norm) {
  Arguments arguments;
  MICA_RETURN_IF_ERROR(AppendNorm(norm, arguments));
  MICA_ASSIGN_OR_RETURN(auto scale, Add("mica.batch_norm_scale",
                                        std::move(arguments), norm.source));
  return Arguments{ValueRef{scale[0]}, ValueRef{scale[1]}};
}

absl::StatusOr<ValueId> ConvolutionFuser::EmitScale(const Match& match) {
  const Op& norm = op(match.norm);
  MICA_ASSIGN_OR_RETURN(Arguments scale, AddScale(norm));
  MICA_ASSIGN_OR_RETURN(
      auto results,
      Add("mica.scale_channels",
          {NewArgument(norm, 0), std::move(scale[0]), std::move(scale[1]),
           match.activation},
          norm.source, {program_.type(op(match.last).results[0])}));
  return results[0];
}

absl::Status ConvolutionFuser::Emit(const Match& match) {
  MICA_ASSIGN_OR_RETURN(ValueId value, match.convolution != kNoOp
                                           ? EmitConvolution(match)
                                           : EmitScale(match));
  rewriter_.Map(op(match.last).results[0], value);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> FuseConvolutions(Program program, const OpRegistry& ops,
                                         const KernelRegistry& kernels) {
  MICA_ASSIGN_OR_RETURN(auto fused,
                        ConvolutionFuser(program, ops, kernels).Run());
  if (!fused.has_value()) return program;
  return RemoveDeadOps(*std::move(fused), ops);
}

}  // namespace mica
