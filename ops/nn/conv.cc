// Convolution and pooling.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/activation_name.h"
#include "ops/nn/families.h"
#include "ops/nn/window.h"

namespace mica {
namespace {

absl::StatusOr<TensorTypes> InferConvolution(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(Dims dims, ConvolvedDims(call, /*input=*/0));
  const Dims channels = {dims[1]};
  if (call.Has(2) && call.Type(2).dims != channels) {
    return call.Wants("channels that fit weight, groups and bias");
  }
  return TensorTypes{FreshTensor(call.Type(0).dtype, std::move(dims))};
}

absl::StatusOr<TensorTypes> InferFusedConvolution(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(TensorTypes types, InferConvolution(call));
  if (call.Has(9) && !SameShape(call.Type(9), types[0])) {
    return call.Wants("a residual of the result's dims");
  }
  MICA_RETURN_IF_ERROR(CheckActivation(call, 10));
  return types;
}

absl::StatusOr<TensorTypes> InferScaledConvolution(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(TensorTypes types, InferFusedConvolution(call));
  const Dims channels = {types[0].dims[1]};
  if (call.Type(11).dims != channels || call.Type(12).dims != channels) {
    return call.Wants("a scale and a shift for each channel");
  }
  return types;
}

absl::StatusOr<TensorTypes> InferMaxPool(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(Dims dims,
                        PooledDims(call, {.dilation = 4, .ceil_mode = 5}));
  return TensorTypes{FreshTensor(call.Type(0).dtype, dims),
                     FreshTensor(DType::kI64, dims)};
}

absl::StatusOr<TensorTypes> InferAveragePool(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(Dims dims, PooledDims(call, {.ceil_mode = 4}));
  if (call.Has(6) && call.Int(6) == 0) {
    return call.Wants("divisor_override unequal to 0");
  }
  return TensorTypes{FreshTensor(call.Type(0).dtype, std::move(dims))};
}

absl::StatusOr<TensorTypes> InferAdaptivePool(const OpCall& call) {
  const TensorType& x = call.Type(0);
  if (x.rank() < 3 || x.rank() > 4 || !HasEntries(call.Ints(1), 2, 0) ||
      x.dims[x.rank() - 1] == 0 || x.dims[x.rank() - 2] == 0) {
    return call.Wants("[c,h,w] or [n,c,h,w] and an output size");
  }
  Dims dims = x.dims;
  dims[x.rank() - 2] = Entry(call.Ints(1), 0);
  dims[x.rank() - 1] = Entry(call.Ints(1), 1);
  return TensorTypes{FreshTensor(x.dtype, std::move(dims))};
}

}  // namespace

void RegisterConvOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::convolution(Tensor input, Tensor weight, Tensor? bias, "
            "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool "
            "transposed, SymInt[] output_padding, SymInt groups) -> Tensor")
          .Doc("Each output pixel is the product of weight with the window "
               "around it, plus bias; transposed, its adjoint.")
          .Infer(InferConvolution)
          .Contraction());
  registry.Add(
      OpDef("mica::convolution(Tensor input, Tensor weight, Tensor? bias, "
            "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool "
            "transposed, SymInt[] output_padding, SymInt groups, Tensor? "
            "residual, str activation) -> Tensor")
          .Doc("activation(convolution + residual).")
          .Infer(InferFusedConvolution)
          .Contraction());
  registry.Add(
      OpDef("mica::scaled_convolution(Tensor input, Tensor weight, Tensor? "
            "bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool "
            "transposed, SymInt[] output_padding, SymInt groups, Tensor? "
            "residual, str activation, Tensor scale, Tensor shift) -> Tensor")
          .Doc("activation(convolution * scale + shift + residual): a batch "
               "norm is part of it where weights have too few bits to be "
               "scaled themselves.")
          .Infer(InferScaledConvolution)
          .Contraction());
  registry.Add(
      OpDef("aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, "
            "int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool "
            "ceil_mode=False) -> (Tensor, Tensor)")
          .Doc("The largest element of each window and its place in the plane.")
          .Infer(InferMaxPool));
  registry.Add(
      OpDef("aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] "
            "stride=[], int[2] padding=0, bool ceil_mode=False, bool "
            "count_include_pad=True, int? divisor_override=None) -> Tensor")
          .Doc("The mean of each window.")
          .Infer(InferAveragePool));
  registry.Add(
      OpDef("aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> "
            "Tensor")
          .Doc("Means over windows that cut each plane in output_size parts.")
          .Infer(InferAdaptivePool));
}

}  // namespace mica
