// Gradients of convolution and pooling.

#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/backward.h"
#include "ops/nn/families.h"
#include "ops/nn/window.h"

namespace mica {
namespace {

absl::StatusOr<TensorTypes> InferConvolutionBackward(const OpCall& call) {
  const TensorType& x = call.Type(1);
  const TensorType& weight = call.Type(2);
  MICA_ASSIGN_OR_RETURN(Dims dims, ConvolvedDims(call, /*input=*/1));
  MICA_RETURN_IF_ERROR(CheckGradient(call, 0, dims, x.dtype));
  if (!IsFloating(x.dtype)) return call.Wants("floating-point tensors");
  return MaskedResults(
      call, 10,
      {FreshTensor(x.dtype, x.dims), FreshTensor(x.dtype, weight.dims),
       FreshTensor(x.dtype, {dims[1]})});
}

absl::StatusOr<TensorTypes> InferMaxPoolBackward(const OpCall& call) {
  const TensorType& x = call.Type(1);
  MICA_ASSIGN_OR_RETURN(
      Dims dims,
      PooledDims(call,
                 {.input = 1, .kernel = 2, .dilation = 5, .ceil_mode = 6}));
  MICA_RETURN_IF_ERROR(CheckGradient(call, 0, dims, x.dtype));
  if (call.Type(7).dims != dims || call.Type(7).dtype != DType::kI64) {
    return call.Wants("i64 indices with the gradient's dims");
  }
  return TensorTypes{FreshTensor(x.dtype, x.dims)};
}

absl::StatusOr<TensorTypes> InferAveragePoolBackward(const OpCall& call) {
  const TensorType& x = call.Type(1);
  MICA_ASSIGN_OR_RETURN(
      Dims dims, PooledDims(call, {.input = 1, .kernel = 2, .ceil_mode = 5}));
  MICA_RETURN_IF_ERROR(CheckGradient(call, 0, dims, x.dtype));
  if (!IsFloating(x.dtype) || (call.Has(7) && call.Int(7) == 0)) {
    return call.Wants("floating-point numbers and a divisor unequal to 0");
  }
  return TensorTypes{FreshTensor(x.dtype, x.dims)};
}

// True for planes that can be cut in parts.
bool HasPlanes(const TensorType& x) {
  return x.rank() >= 3 && x.rank() <= 4 && AreExtents(x.dims) &&
         x.dims[x.rank() - 1] > 0 && x.dims[x.rank() - 2] > 0;
}

bool HasSamePlanes(const TensorType& grad, const TensorType& x) {
  return grad.rank() == x.rank() && grad.dtype == x.dtype &&
         AreExtents(grad.dims) &&
         std::equal(x.dims.begin(), x.dims.end() - 2, grad.dims.begin());
}

absl::StatusOr<TensorTypes> InferAdaptivePoolBackward(const OpCall& call) {
  const TensorType& x = call.Type(1);
  if (!HasPlanes(x) || !HasSamePlanes(call.Type(0), x) ||
      !IsFloating(x.dtype)) {
    return call.Wants("[c,h,w] or [n,c,h,w] and a gradient of as many planes");
  }
  return TensorTypes{FreshTensor(x.dtype, x.dims)};
}

absl::StatusOr<TensorTypes> InferAdaptiveMaxPool(const OpCall& call) {
  const TensorType& x = call.Type(0);
  if (!HasPlanes(x) || !HasEntries(call.Ints(1), 2, 0)) {
    return call.Wants("[c,h,w] or [n,c,h,w] and an output size");
  }
  Dims dims = x.dims;
  dims[x.rank() - 2] = Entry(call.Ints(1), 0);
  dims[x.rank() - 1] = Entry(call.Ints(1), 1);
  return TensorTypes{FreshTensor(x.dtype, dims),
                     FreshTensor(DType::kI64, dims)};
}

absl::StatusOr<TensorTypes> InferAdaptiveMaxPoolBackward(const OpCall& call) {
  const TensorType& indices = call.Type(2);
  if (indices.dims != call.Type(0).dims || indices.dtype != DType::kI64) {
    return call.Wants("i64 indices with the gradient's dims");
  }
  return InferAdaptivePoolBackward(call);
}

}  // namespace

void RegisterConvBackwardOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::convolution_backward(Tensor grad_output, Tensor input, "
            "Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] "
            "padding, SymInt[] dilation, bool transposed, SymInt[] "
            "output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, "
            "Tensor, Tensor)")
          .Doc("Gradients of input, weight and bias; those that output_mask "
               "leaves out are absent.")
          .Infer(InferConvolutionBackward)
          .Contraction());
  registry.Add(
      OpDef("aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor "
            "self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] "
            "dilation, bool ceil_mode, Tensor indices) -> Tensor")
          .Doc("grad_output, added up at the places that indices name.")
          .Infer(InferMaxPoolBackward));
  registry.Add(
      OpDef("aten::avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] "
            "kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool "
            "count_include_pad, int? divisor_override) -> Tensor")
          .Doc("grad_output, spread evenly over each window.")
          .Infer(InferAveragePoolBackward));
  registry.Add(
      OpDef("aten::_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor "
            "self) -> Tensor")
          .Doc("grad_output, spread evenly over the part that it belongs to.")
          .Infer(InferAdaptivePoolBackward));
  registry.Add(
      OpDef("aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> "
            "(Tensor, Tensor)")
          .Doc("The largest element of each of output_size parts of a plane, "
               "and its place in the plane.")
          .Infer(InferAdaptiveMaxPool));
  registry.Add(
      OpDef("aten::adaptive_max_pool2d_backward(Tensor grad_output, Tensor "
            "self, Tensor indices) -> Tensor")
          .Doc("grad_output, added up at the places that indices name.")
          .Infer(InferAdaptiveMaxPoolBackward));
}

}  // namespace mica
