// Attention and embedding.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/families.h"

namespace mica {
namespace {

absl::StatusOr<TensorTypes> InferAttention(const OpCall& call) {
  const TensorType& q = call.Type(0);
  const TensorType& k = call.Type(1);
  const TensorType& v = call.Type(2);
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 &&
                    k.dims[1] > 0 && k.dims[0] == q.dims[0] &&
                    v.dims[0] == q.dims[0] && q.dims[1] % k.dims[1] == 0 &&
                    v.dims[1] == k.dims[1] && k.dims[3] == q.dims[3] &&
                    v.dims[2] == k.dims[2] && q.dtype == k.dtype &&
                    q.dtype == v.dtype && IsFloating(q.dtype);
  if (!fits) {
    return call.Wants(
        "q[b,h,l,e], k[b,g,s,e] and v[b,g,s,f], h a multiple of g,");
  }
  if (call.Number(3) != 0) {
    return absl::UnimplementedError(
        absl::StrCat(call.def().name(), ": dropout_p > 0"));
  }
  const Dims scores = {q.dims[0], q.dims[1], q.dims[2], k.dims[2]};
  if (call.Has(5) && !BroadcastsTo(call.Type(5).dims, scores)) {
    return call.Wants("attn_mask that broadcasts to [b,h,l,s]");
  }
  Dims out = q.dims;
  out[3] = v.dims[3];
  const DType stats = q.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return TensorTypes{FreshTensor(q.dtype, std::move(out)),
                     FreshTensor(stats, {q.dims[0], q.dims[1], q.dims[2]})};
}

// Which positions a mask of this kind has, for scores [b,h,l,s].
Dims MaskDims(int64_t mask_type, const Dims& scores) {
  if (mask_type == 0) return {scores[2], scores[3]};
  if (mask_type == 1) return {scores[0], scores[3]};
  return scores;
}

absl::StatusOr<TensorTypes> InferAttentionLayer(const OpCall& call) {
  const TensorType& q = call.Type(0);
  const TensorType& k = call.Type(1);
  const TensorType& v = call.Type(2);
  const int64_t width = call.Int(3), heads = call.Int(4);
  const bool fits = q.rank() == 3 && k.rank() == 3 && v.dims == k.dims &&
                    q.dims[0] == k.dims[0] && q.dims[2] == width &&
                    k.dims[2] == width && heads > 0 && width > 0 &&
                    width % heads == 0 && width < (1 << 20) &&
                    call.Type(5).dims == Dims{3 * width, width} &&
                    call.Type(6).dims == Dims{3 * width} &&
                    call.Type(7).dims == Dims{width, width} &&
                    call.Type(8).dims == Dims{width} && IsFloating(q.dtype);
  if (!fits) {
    return call.Wants(
        "q[b,l,e], k and v[b,s,e], qkv_weight[3e,e], qkv_bias[3e], "
        "proj_weight[e,e] and proj_bias[e], e a multiple of num_head,");
  }
  const Dims scores = {q.dims[0], heads, q.dims[1], k.dims[1]};
  if (call.Has(9)) {
    const int64_t mask_type = IntOr(call, 12, 2);
    if (!BroadcastsTo(call.Type(9).dims, MaskDims(mask_type, scores))) {
      return call.Wants("a mask that fits its mask_type");
    }
  }
  TensorTypes types = {FreshTensor(q.dtype, q.dims), AbsentResultType()};
  if (call.Bool(10) && call.Bool(11)) {
    types[1] = FreshTensor(q.dtype, {scores[0], scores[2], scores[3]});
  } else if (call.Bool(10)) {
    types[1] = FreshTensor(q.dtype, scores);
  }
  return types;
}

absl::StatusOr<TensorTypes> InferEmbedding(const OpCall& call) {
  const TensorType& weight = call.Type(0);
  const TensorType& indices = call.Type(1);
  if (weight.rank() != 2 || !IsIntegral(indices.dtype)) {
    return call.Wants("weight[n,d] and integer indices");
  }
  Dims dims = indices.dims;
  dims.push_back(weight.dims[1]);
  return TensorTypes{FreshTensor(weight.dtype, std::move(dims))};
}

}  // namespace

void RegisterAttentionOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, "
            "Tensor key, Tensor value, float dropout_p=0., bool "
            "is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> "
            "(Tensor output, Tensor logsumexp)")
          .Doc("softmax(scale * q @ k^T + mask) @ v for each head, scale "
               "1/sqrt(e) if None; causal: query i sees keys up to i. Fewer "
               "key heads are shared by consecutive query heads.")
          .Infer(InferAttention)
          .Contraction());
  registry.Add(
      OpDef("aten::_native_multi_head_attention(Tensor query, Tensor key, "
            "Tensor value, int embed_dim, int num_head, Tensor qkv_weight, "
            "Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? "
            "mask=None, bool need_weights=True, bool "
            "average_attn_weights=True, int? mask_type=None) -> (Tensor, "
            "Tensor)")
          .Doc(
              "Projects query, key and value, attends in num_head heads and "
              "projects the result; with the attention's weights. The mask is "
              "nonzero where nothing is seen: [l,s] for mask_type 0, [b,s] for "
              "1, [b,h,l,s] for 2.")
          .Infer(InferAttentionLayer)
          .Contraction());
  registry.Add(
      OpDef("aten::embedding(Tensor weight, Tensor indices, SymInt "
            "padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) "
            "-> Tensor")
          .Doc("Rows of weight, one for each index.")
          .Infer(InferEmbedding)
          .RaisesByValues());
}

}  // namespace mica
