// Batch norm in training, and gradients of batch and group norm.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/backward.h"
#include "ops/nn/families.h"

namespace mica {
namespace {

// True if the optional tensor `param` is absent or is [size] of `dtype`.
bool IsVector(const OpCall& call, int param, DType dtype, Dim size) {
  if (!call.Has(param)) return true;
  const TensorType& type = call.Type(param);
  return type.dtype == dtype && type.dims == Dims{size};
}

// What numbers for all of a channel have: the input's dtype, or all of them
// float32 where that has 16 bits.
DType ChannelDType(const OpCall& call, int input, int begin, int end) {
  const DType own = call.Type(input).dtype;
  if (own != DType::kBF16 && own != DType::kF16) return own;
  for (int param = begin; param < end; ++param) {
    if (call.Has(param)) return call.Type(param).dtype;
  }
  return own;
}

// Checks [N,C,...], whose statistics, if taken, are of one element at least,
// and that parameters `begin` to `end` are absent or [C].
absl::Status CheckChannels(const OpCall& call, int input, int begin, int end) {
  const TensorType& x = call.Type(input);
  if (x.rank() < 2 || !IsFloating(x.dtype)) {
    return call.Wants("a floating-point [N,C,...]");
  }
  const DType dtype = ChannelDType(call, input, begin, end);
  const bool fits = dtype == x.dtype || dtype == DType::kF32;
  for (int param = begin; param < end; ++param) {
    if (!fits || !IsVector(call, param, dtype, x.dims[1])) {
      return call.Wants(
          "weight, bias and statistics of dims [C] and the input's dtype, or "
          "float32 for 16 bits");
    }
  }
  return absl::OkStatus();
}

// native_batch_norm: statistics are results when training, else empty.
absl::StatusOr<TensorTypes> InferBatchNormResults(const OpCall& call) {
  const TensorType& x = call.Type(0);
  MICA_RETURN_IF_ERROR(CheckChannels(call, 0, 1, 5));
  const bool is_training = call.Bool(5);
  if (call.Has(3) != call.Has(4) || (!is_training && !call.Has(3))) {
    return call.Wants("a running mean and a running variance");
  }
  if (is_training && x.num_elements() == 0) {
    return call.Wants("at least one element to train with");
  }
  const TensorType statistics =
      FreshTensor(ChannelDType(call, 0, 1, 5), {is_training ? x.dims[1] : 0});
  return TensorTypes{FreshTensor(x.dtype, x.dims), statistics, statistics};
}

// The same without hidden writes: running statistics come back as results.
absl::StatusOr<TensorTypes> InferFunctionalBatchNorm(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(TensorTypes types, InferBatchNormResults(call));
  for (int param : {3, 4}) {
    types.push_back(FreshTensor(call.Type(param).dtype, call.Type(param).dims));
  }
  return types;
}

// What writes nothing: there are no running statistics, or they are kept.
absl::StatusOr<TensorTypes> InferPureBatchNorm(const OpCall& call) {
  if (call.Bool(5) && (call.Has(3) || call.Has(4))) {
    return absl::UnimplementedError(
        absl::StrCat(call.def().name(), ": writes running statistics"));
  }
  return InferBatchNormResults(call);
}

absl::StatusOr<TensorTypes> InferBatchNormBackward(const OpCall& call) {
  const TensorType& x = call.Type(1);
  const bool is_training = call.Bool(7);
  MICA_RETURN_IF_ERROR(CheckChannels(call, 1, 2, 3));
  MICA_RETURN_IF_ERROR(CheckGradient(call, 0, x.dims, x.dtype));
  const DType dtype = ChannelDType(call, 1, 2, 7);
  // Statistics that aren't used may be anything: eager saves empty ones.
  const int first = is_training ? 5 : 3;
  for (int param : {first, first + 1}) {
    if (!call.Has(param) || !IsVector(call, param, dtype, x.dims[1])) {
      return call.Wants("the statistics that the forward used");
    }
  }
  const TensorType vector = FreshTensor(dtype, {x.dims[1]});
  return MaskedResults(call, 9, {FreshTensor(x.dtype, x.dims), vector, vector});
}

absl::StatusOr<TensorTypes> InferGroupNormBackward(const OpCall& call) {
  const TensorType& x = call.Type(1);
  const int64_t n = call.Int(5), c = call.Int(6), pixels = call.Int(7);
  const int64_t groups = call.Int(8);
  const bool fits = x.rank() >= 2 && x.dims[0] == n && x.dims[1] == c &&
                    groups > 0 && c % groups == 0 &&
                    CountOf(absl::MakeConstSpan(x.dims).subspan(2)) == pixels;
  if (!fits || !IsFloating(x.dtype) || !IsVector(call, 4, x.dtype, c)) {
    return call.Wants(
        "a floating-point [N,C,...] with C a multiple of group, and weight[C]");
  }
  MICA_RETURN_IF_ERROR(CheckGradient(call, 0, x.dims, x.dtype));
  for (int param : {2, 3}) {
    const TensorType& type = call.Type(param);
    if (type.dims != Dims{n, groups} || type.dtype != x.dtype) {
      return call.Wants("mean and rstd of dims [N, group]");
    }
  }
  const TensorType vector = FreshTensor(x.dtype, {c});
  return MaskedResults(call, 9, {FreshTensor(x.dtype, x.dims), vector, vector});
}

}  // namespace

void RegisterNormBackwardOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? "
            "bias, Tensor? running_mean, Tensor? running_var, bool training, "
            "float momentum, float eps) -> (Tensor, Tensor, Tensor)")
          .Doc("Normalises each channel, by running statistics or, training "
               "without any, by the batch's mean and 1 / sqrt(variance + "
               "eps), which are results then.")
          .Infer(InferPureBatchNorm));
  registry.Add(
      OpDef("aten::_native_batch_norm_legit_functional(Tensor input, Tensor? "
            "weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
            "bool training, float momentum, float eps) -> (Tensor, Tensor, "
            "Tensor, Tensor running_mean_out, Tensor running_var_out)")
          .Doc("native_batch_norm that returns the new running statistics: "
               "training, momentum times the batch's (its variance over n - "
               "1) and 1 - momentum times the old ones.")
          .Infer(InferFunctionalBatchNorm));
  registry.Add(
      OpDef("aten::native_batch_norm_backward(Tensor grad_out, Tensor input, "
            "Tensor? weight, Tensor? running_mean, Tensor? running_var, "
            "Tensor? save_mean, Tensor? save_invstd, bool train, float eps, "
            "bool[3] output_mask) -> (Tensor, Tensor, Tensor)")
          .Doc("Gradients of input, weight and bias; those that output_mask "
               "leaves out are absent.")
          .Infer(InferBatchNormBackward));
  registry.Add(
      OpDef("aten::native_group_norm_backward(Tensor grad_out, Tensor input, "
            "Tensor mean, Tensor rstd, Tensor? weight, SymInt N, SymInt C, "
            "SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, "
            "Tensor)")
          .Doc("Gradients of input, weight and bias; those that output_mask "
               "leaves out are absent.")
          .Infer(InferGroupNormBackward));
}

}  // namespace mica
