// Batch norm out of training, taken apart: numbers that are known before the
// input, and what is left to do with it.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/infer.h"
#include "ops/nn/activation_name.h"
#include "ops/nn/families.h"

namespace mica {
namespace {

constexpr absl::string_view kActivations[] = {
    "none",      "relu", "relu6", "hardswish", "gelu",
    "gelu_tanh", "tanh", "silu",  "sigmoid",
};

// True if each parameter from `first` on is absent or one number a channel.
bool AreChannels(const OpCall& call, int first, int count, Dim channels,
                 DType dtype) {
  for (int param = first; param < first + count; ++param) {
    if (call.Has(param) && (call.Type(param).dims != Dims{channels} ||
                            call.Type(param).dtype != dtype)) {
      return false;
    }
  }
  return true;
}

// What numbers for all of a channel's elements have.
DType WideOf(DType dtype) {
  return ElementBytes(dtype) == 2 ? DType::kF32 : dtype;
}

absl::StatusOr<TensorTypes> InferFold(const OpCall& call) {
  const TensorType& weight = call.Type(0);
  if (weight.rank() < 1 || !IsFloating(weight.dtype) ||
      !AreChannels(call, 1, 5, weight.dims[0], weight.dtype)) {
    return call.Wants("weight[o,...] and one number for each o");
  }
  return TensorTypes{FreshTensor(weight.dtype, weight.dims),
                     FreshTensor(weight.dtype, {weight.dims[0]})};
}

absl::StatusOr<TensorTypes> InferScale(const OpCall& call) {
  const TensorType& mean = call.Type(2);
  if (mean.rank() != 1 || !IsFloating(mean.dtype) ||
      !AreChannels(call, 0, 4, mean.dims[0], mean.dtype)) {
    return call.Wants("one number for each channel");
  }
  return TensorTypes(2, FreshTensor(mean.dtype, mean.dims));
}

absl::StatusOr<TensorTypes> InferScaleChannels(const OpCall& call) {
  const TensorType& x = call.Type(0);
  if (x.rank() < 2 || !IsFloating(x.dtype) ||
      !(AreChannels(call, 1, 2, x.dims[1], x.dtype) ||
        AreChannels(call, 1, 2, x.dims[1], WideOf(x.dtype)))) {
    return call.Wants(
        "x[n,c,...], scale[c] and shift[c] of one dtype, or float32 for 16 "
        "bits");
  }
  if (absl::Status status = CheckActivation(call, 3); !status.ok()) {
    return status;
  }
  return TensorTypes{FreshTensor(x.dtype, x.dims)};
}

}  // namespace

absl::Status CheckActivation(const OpCall& call, int param) {
  if (std::find(std::begin(kActivations), std::end(kActivations),
                call.String(param)) != std::end(kActivations)) {
    return absl::OkStatus();
  }
  return call.Wants(
      absl::StrCat("a known activation, not \"", call.String(param), "\","));
}

void RegisterFoldOps(OpRegistry& registry) {
  registry.Add(
      OpDef("mica::fold_batch_norm(Tensor weight, Tensor? bias, Tensor? gamma, "
            "Tensor? beta, Tensor mean, Tensor variance, float eps) -> (Tensor "
            "weight, Tensor bias)")
          .Doc("Weight and bias of a convolution whose result is normalised by "
               "running statistics already.")
          .Infer(InferFold));
  registry.Add(
      OpDef("mica::batch_norm_scale(Tensor? gamma, Tensor? beta, Tensor mean, "
            "Tensor variance, float eps) -> (Tensor scale, Tensor shift)")
          .Doc("Batch norm by running statistics is x * scale + shift.")
          .Infer(InferScale));
  registry.Add(
      OpDef("mica::scale_channels(Tensor x, Tensor scale, Tensor shift, str "
            "activation) -> Tensor")
          .Doc("activation(x * scale + shift), channel by channel.")
          .Infer(InferScaleChannels));
}

}  // namespace mica
