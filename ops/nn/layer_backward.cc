// Gradients of a transformer's layers.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/backward.h"
#include "ops/nn/families.h"

namespace mica {
namespace {

absl::StatusOr<TensorTypes> InferGeluBackward(const OpCall& call) {
  if (call.String(2) != "none" && call.String(2) != "tanh") {
    return call.Wants("approximate \"none\" or \"tanh\"");
  }
  return Pointwise({.operands = {0, 1}, .accepts = Accepts::kFloating})(call);
}

absl::StatusOr<TensorTypes> InferSoftmaxBackward(const OpCall& call) {
  const TensorType& output = call.Type(1);
  MICA_RETURN_IF_ERROR(
      NormalizeAxis(call, call.Int(2), output.rank()).status());
  MICA_RETURN_IF_ERROR(CheckGradient(call, 0, output.dims, output.dtype));
  if (!IsFloating(output.dtype)) return call.Wants("floating-point tensors");
  return TensorTypes{FreshTensor(DTypeOr(call, 3, output.dtype), output.dims)};
}

absl::StatusOr<TensorTypes> InferLayerNormBackward(const OpCall& call) {
  const TensorType& x = call.Type(1);
  const absl::Span<const int64_t> shape = call.Ints(2);
  if (!IsFloating(x.dtype)) return call.Wants("floating-point tensors");
  MICA_RETURN_IF_ERROR(CheckGradient(call, 0, x.dims, x.dtype));
  const int outer = x.rank() - static_cast<int>(shape.size());
  if (outer < 0 || shape.empty() ||
      !std::equal(shape.begin(), shape.end(), x.dims.begin() + outer)) {
    return call.Wants("an input whose last dims are normalized_shape");
  }
  Dims rows(x.dims.begin(), x.dims.begin() + outer);
  rows.resize(x.rank(), 1);
  const Dims affine(shape.begin(), shape.end());
  for (int param : {3, 4}) {
    if (call.Type(param).dims != rows) {
      return call.Wants("a mean and an rstd for each row");
    }
  }
  for (int param : {5, 6}) {
    if (call.Has(param) && call.Type(param).dims != affine) {
      return call.Wants("weight and bias of the dims normalized_shape");
    }
  }
  const DType dtype = call.Has(5) ? call.Type(5).dtype : x.dtype;
  return MaskedResults(
      call, 7,
      {FreshTensor(x.dtype, x.dims), FreshTensor(dtype, affine),
       FreshTensor(dtype, affine)});
}

absl::StatusOr<TensorTypes> InferEmbeddingBackward(const OpCall& call) {
  const TensorType& grad = call.Type(0);
  const TensorType& indices = call.Type(1);
  const bool fits =
      IsIntegral(indices.dtype) && grad.rank() == indices.rank() + 1 &&
      std::equal(indices.dims.begin(), indices.dims.end(), grad.dims.begin());
  if (!fits) return call.Wants("indices[...] and a gradient[..., d]");
  if (call.Int(2) < 0) return call.Wants("num_weights of at least 0");
  return TensorTypes{FreshTensor(grad.dtype, {call.Int(2), grad.dims.back()})};
}

absl::StatusOr<TensorTypes> InferAttentionBackward(const OpCall& call) {
  const TensorType& q = call.Type(1);
  const TensorType& k = call.Type(2);
  const TensorType& v = call.Type(3);
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 &&
                    IsFloating(q.dtype) && k.dtype == q.dtype &&
                    v.dtype == q.dtype && k.dims[0] == q.dims[0] &&
                    v.dims[0] == q.dims[0] && k.dims[1] == q.dims[1] &&
                    v.dims[1] == q.dims[1] && k.dims[3] == q.dims[3] &&
                    v.dims[2] == k.dims[2];
  if (!fits) return call.Wants("q[b,h,l,e], k[b,h,s,e] and v[b,h,s,f],");
  if (call.Number(6) != 0) {
    return absl::UnimplementedError(
        absl::StrCat(call.def().name(), ": dropout_p > 0"));
  }
  Dims out = q.dims;
  out[3] = v.dims[3];
  MICA_RETURN_IF_ERROR(CheckGradient(call, 0, out, q.dtype));
  MICA_RETURN_IF_ERROR(CheckGradient(call, 4, out, q.dtype));
  if (call.Type(5).dims != Dims({q.dims[0], q.dims[1], q.dims[2]})) {
    return call.Wants("logsumexp[b,h,l],");
  }
  if (call.Has(8) && !BroadcastsTo(call.Type(8).dims, {q.dims[0], q.dims[1],
                                                       q.dims[2], k.dims[2]})) {
    return call.Wants("attn_mask that broadcasts to [b,h,l,s]");
  }
  return TensorTypes{FreshTensor(q.dtype, q.dims), FreshTensor(k.dtype, k.dims),
                     FreshTensor(v.dtype, v.dims)};
}

}  // namespace

void RegisterLayerBackwardOps(OpRegistry& registry) {
  registry.Add(OpDef("aten::gelu_backward(Tensor grad_output, Tensor self, *, "
                     "str approximate=\"none\") -> Tensor")
                   .Doc("grad_output times the slope of gelu at self.")
                   .Infer(InferGeluBackward)
                   .Elementwise());
  registry.Add(
      OpDef("aten::_softmax_backward_data(Tensor grad_output, Tensor output, "
            "int dim, ScalarType input_dtype) -> Tensor")
          .Doc("(grad_output - sum(grad_output * output)) * output, the sum "
               "along dim.")
          .Infer(InferSoftmaxBackward));
  registry.Add(
      OpDef("aten::_log_softmax_backward_data(Tensor grad_output, Tensor "
            "output, int dim, ScalarType input_dtype) -> Tensor")
          .Doc("grad_output - exp(output) * sum(grad_output), the sum along "
               "dim.")
          .Infer(InferSoftmaxBackward));
  registry.Add(
      OpDef("aten::native_layer_norm_backward(Tensor grad_out, Tensor input, "
            "SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? "
            "weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, "
            "Tensor)")
          .Doc("Gradients of a layer norm's input, weight and bias.")
          .Infer(InferLayerNormBackward));
  registry.Add(
      OpDef("aten::embedding_dense_backward(Tensor grad_output, Tensor "
            "indices, SymInt num_weights, SymInt padding_idx, bool "
            "scale_grad_by_freq) -> Tensor")
          .Doc("For each row of the weight the sum of grad_output's rows at "
               "its index; 0 for padding_idx.")
          .Infer(InferEmbeddingBackward));
  registry.Add(
      OpDef("aten::_scaled_dot_product_flash_attention_for_cpu_backward("
            "Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor "
            "out, Tensor logsumexp, float dropout_p, bool is_causal, *, "
            "Tensor? attn_mask=None, float? scale=None) -> (Tensor "
            "grad_query, Tensor grad_key, Tensor grad_value)")
          .Doc("Gradients of attention's query, key and value; the weights "
               "are found again from logsumexp.")
          .Infer(InferAttentionBackward)
          .Contraction());
}

}  // namespace mica
