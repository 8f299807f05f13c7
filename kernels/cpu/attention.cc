// Scaled dot-product attention, float32.

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// Strides in elements of [batch, head, row, column].
struct Strides4 {
  int64_t batch = 0, head = 0, row = 0, col = 0;
  int64_t Head(int64_t b, int64_t h) const { return b * batch + h * head; }
};

struct AttentionState {
  int64_t batch = 0, heads = 0, heads_per_key_head = 1;
  AttentionHeadArgs head;  // All but the addresses.
  Strides4 q, k, v, out, mask, lse;
  int mask_arg = -1, out_arg = -1, lse_arg = -1, scratch_arg = -1;
  bool is_bool_mask = false;
  int64_t scratch_floats = 0;  // Of one thread.
  int num_threads = 1;
};

// Strides of `type` broadcast to four dims.
Strides4 StridesOf(const TensorType& type) {
  const Dims own = type.EffectiveStrides();
  int64_t all[4] = {};
  for (int i = 0; i < type.rank(); ++i) {
    if (type.dims[i] != 1) all[4 - type.rank() + i] = own[i];
  }
  return {all[0], all[1], all[2], all[3]};
}

void RunHead(const AttentionState& s, void* const* args, int64_t index,
             float* scratch) {
  const int64_t b = index / s.heads, h = index % s.heads;
  const int64_t g = h / s.heads_per_key_head;
  AttentionHeadArgs head = s.head;
  head.q = static_cast<const float*>(args[0]) + s.q.Head(b, h);
  head.k = static_cast<const float*>(args[1]) + s.k.Head(b, g);
  head.v = static_cast<const float*>(args[2]) + s.v.Head(b, g);
  head.out = static_cast<float*>(args[s.out_arg]) + s.out.Head(b, h);
  if (s.mask_arg >= 0 && s.is_bool_mask) {
    head.bool_mask =
        static_cast<const bool*>(args[s.mask_arg]) + s.mask.Head(b, h);
  } else if (s.mask_arg >= 0) {
    head.mask = static_cast<const float*>(args[s.mask_arg]) + s.mask.Head(b, h);
  }
  if (args[s.lse_arg] != nullptr) {
    head.lse = static_cast<float*>(args[s.lse_arg]) + s.lse.Head(b, h);
  }
  head.scratch = scratch;
  Simd().attention_head(head);
}

bool LaunchAttention(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const AttentionState*>(state);
  auto* scratch = static_cast<float*>(args[s.scratch_arg]);
  ParallelPieces(s.num_threads, s.batch * s.heads,
                 [&](int piece, int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     RunHead(s, args, i, scratch + piece * s.scratch_floats);
                   }
                 });
  return true;
}

bool HasUnitColumns(const TensorType& type) {
  return type.dims[3] <= 1 || type.EffectiveStrides()[3] == 1;
}

std::optional<No> SetMask(const KernelRequest& request, AttentionState& s) {
  s.mask_arg = request.OperandIndex(5);
  if (s.mask_arg < 0) return std::nullopt;
  const TensorType& mask = request.operands[s.mask_arg].type;
  s.is_bool_mask = mask.dtype == DType::kBool;
  if (!s.is_bool_mask && mask.dtype != DType::kF32) {
    return No{"the mask is neither f32 nor bool"};
  }
  s.mask = StridesOf(mask);
  s.head.mask_row_stride = s.mask.row;
  s.head.mask_col_stride = s.mask.col;
  return std::nullopt;
}

Verdict PrepareAttention(const KernelRequest& request) {
  const TensorType& q = request.operands[0].type;
  const TensorType& k = request.operands[1].type;
  const TensorType& v = request.operands[2].type;
  const TensorType& out = request.results[0].type;
  if (!request.results[0].is_used) return No{"only the statistics are read"};
  for (const TensorType* type : {&q, &k, &v, &out}) {
    if (!HasUnitColumns(*type)) return No{"features aren't next to each other"};
  }
  AttentionState s;
  s.batch = q.dims[0];
  s.heads = q.dims[1];
  s.heads_per_key_head = q.dims[1] / std::max<int64_t>(k.dims[1], 1);
  s.q = StridesOf(q);
  s.k = StridesOf(k);
  s.v = StridesOf(v);
  s.out = StridesOf(out);
  const TensorType& lse = request.results[1].type;
  const Dims lse_strides = lse.EffectiveStrides();
  s.lse = {lse_strides[0], lse_strides[1], lse_strides[2], 0};
  if (auto no = SetMask(request, s)) return *no;
  s.head.q_row_stride = s.q.row;
  s.head.k_row_stride = s.k.row;
  s.head.v_row_stride = s.v.row;
  s.head.out_row_stride = s.out.row;
  s.head.num_queries = q.dims[2];
  s.head.num_keys = k.dims[2];
  s.head.head_dim = q.dims[3];
  s.head.value_dim = v.dims[3];
  s.head.lse_stride = s.lse.row;
  s.head.is_causal = request.Has(4) && request.Bool(4);
  s.head.scale = request.Has(6)
                     ? static_cast<float>(request.Number(6))
                     : 1.0f / std::sqrt(static_cast<float>(s.head.head_dim));
  if (s.head.num_keys == 0) return No{"no keys"};
  s.out_arg = static_cast<int>(request.operands.size());
  s.lse_arg = s.out_arg + 1;
  s.scratch_arg = s.out_arg + 2;
  // Whole cache lines for each thread.
  s.scratch_floats = (Simd().attention_scratch_floats(
                          s.head.num_keys, s.head.head_dim, s.head.value_dim) +
                      15) /
                     16 * 16;
  s.num_threads =
      UsefulThreads(request.num_threads,
                    s.batch * s.heads * s.head.num_queries * s.head.num_keys);
  Prepared prepared;
  prepared.launch = LaunchAttention;
  prepared.scratch_bytes =
      s.scratch_floats * s.num_threads * static_cast<int64_t>(sizeof(float));
  prepared.state = std::make_shared<const AttentionState>(s);
  return prepared;
}

}  // namespace

void RegisterAttention(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  registry.Add("aten._scaled_dot_product_flash_attention_for_cpu", kFloat,
               KernelRank::kFast, {"cpu.attention", PrepareAttention});
}

}  // namespace mica::cpu
