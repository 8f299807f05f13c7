#include <cmath>
#include <cstdint>

#include "kernels/cpu/simd/gemm.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

// One head at a time. Few queries meet the keys where they are, by dot
// products; else k is packed (transposed and scaled) once; then every block of
// queries has its scores against all keys in one small tile that stays in
// cache, two matrix products around a softmax.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Up to this many queries packing the keys costs more than it saves.
constexpr int64_t kFewQueries = 3;

MICA_INLINE int64_t RoundUp(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

int64_t ScratchFloats(int64_t num_keys, int64_t head_dim,
                      [[maybe_unused]] int64_t value_dim) {
  const int64_t keys = RoundUp(num_keys, kPanelCols);
  return keys * head_dim + kTileRows * keys;
}

void AddMask(const AttentionHeadArgs& args, int64_t query, int64_t keys,
             float* s) {
  if (args.mask != nullptr) {
    const float* m = args.mask + query * args.mask_row_stride;
    const int64_t step = args.mask_col_stride;
    if (step == 1) {
      MICA_IVDEP
      for (int64_t j = 0; j < keys; ++j) s[j] += m[j];
    } else {
      for (int64_t j = 0; j < keys; ++j) s[j] += m[j * step];
    }
  } else if (args.bool_mask != nullptr) {
    const bool* m = args.bool_mask + query * args.mask_row_stride;
    const int64_t step = args.mask_col_stride;
    for (int64_t j = 0; j < keys; ++j) {
      if (!m[j * step]) s[j] = -INFINITY;
    }
  }
}

// Replaces a row of scores by their exponentials less the largest; returns
// what the weighted sum is to be multiplied by. A row without any key gives
// zeros, and 0 as its log of the sum.
MICA_INLINE float ExpRow(float* s, int64_t keys, float* lse) {
  Vf max = Set(-INFINITY);
  int64_t i = 0;
  const Vm tail = FirstLanes(keys % kLanes);
  for (; i + kLanes <= keys; i += kLanes) max = Max(max, Load(s + i));
  if (i < keys) {
    max = Max(max, Select(tail, Load(s + i, tail), Set(-INFINITY)));
  }
  float top = MaxLanes(max);
  if (top == -INFINITY) top = 0.0f;
  const Vf shift = Set(top);
  Vf sum = Zero();
  for (i = 0; i + kLanes <= keys; i += kLanes) {
    const Vf e = Exp(Load(s + i) - shift);
    Store(s + i, e);
    sum += e;
  }
  if (i < keys) {
    const Vf e = Select(tail, Exp(Load(s + i, tail) - shift), Zero());
    Store(s + i, e, tail);
    sum += e;
  }
  const float total = SumLanes(sum);
  if (lse != nullptr) *lse = total == 0.0f ? 0.0f : top + std::log(total);
  return total == 0.0f ? 0.0f : 1.0f / total;
}

MICA_INLINE void ScaleRow(float* x, int64_t n, float factor) {
  const Vf f = Set(factor);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(x + i, Load(x + i) * f);
  if (i < n) {
    const Vm m = FirstLanes(n - i);
    Store(x + i, Load(x + i, m) * f, m);
  }
}

// Queries first .. first + rows - 1; without packed keys where they are few.
void QueryBlock(const AttentionHeadArgs& args, int64_t first, int64_t rows,
                const float* packed_k, float* scores) {
  int64_t keys = args.num_keys;
  if (args.is_causal && first + rows < keys) keys = first + rows;
  const int64_t score_stride = RoundUp(args.num_keys, kPanelCols);
  if (packed_k == nullptr) {
    DotProducts({.x = args.q + first * args.q_row_stride,
                 .x_row_stride = args.q_row_stride,
                 .w = args.k,
                 .w_row_stride = args.k_row_stride,
                 .out = scores,
                 .out_row_stride = score_stride,
                 .m = rows,
                 .n = keys,
                 .k = args.head_dim});
    for (int64_t i = 0; i < rows; ++i) {
      ScaleRow(scores + i * score_stride, keys, args.scale);
    }
  } else {
    Gemm({.a = args.q + first * args.q_row_stride,
          .a_row_stride = args.q_row_stride,
          .b = packed_k,
          .b_row_stride = kPanelCols,
          .b_panel_stride = kPanelCols * args.head_dim,
          .c = scores,
          .c_row_stride = score_stride,
          .m = rows,
          .n = keys,
          .k = args.head_dim});
  }
  float factor[kTileRows];
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t query = first + i;
    float* s = scores + i * score_stride;
    AddMask(args, query, keys, s);
    if (args.is_causal) {
      for (int64_t j = query + 1; j < keys; ++j) s[j] = -INFINITY;
    }
    factor[i] = ExpRow(
        s, keys,
        args.lse != nullptr ? args.lse + query * args.lse_stride : nullptr);
  }
  float* out = args.out + first * args.out_row_stride;
  Gemm({.a = scores,
        .a_row_stride = score_stride,
        .b = args.v,
        .b_row_stride = args.v_row_stride,
        .b_panel_stride = kPanelCols,
        .c = out,
        .c_row_stride = args.out_row_stride,
        .m = rows,
        .n = args.value_dim,
        .k = keys});
  for (int64_t i = 0; i < rows; ++i) {
    ScaleRow(out + i * args.out_row_stride, args.value_dim, factor[i]);
  }
}

void AttentionHead(const AttentionHeadArgs& args) {
  float* packed_k = args.scratch;
  float* scores = packed_k + RoundUp(args.num_keys, kPanelCols) * args.head_dim;
  if (args.num_queries > 0 && args.num_queries <= kFewQueries) {
    QueryBlock(args, 0, args.num_queries, nullptr, scores);
    return;
  }
  PackTransposed(args.k, args.k_row_stride, args.num_keys, args.head_dim,
                 args.scale, packed_k);
  const int64_t blocks = (args.num_queries + kTileRows - 1) / kTileRows;
  int64_t first = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    // Blocks of equal height, rather than a thin last one.
    const int64_t rows = (args.num_queries + b) / blocks;
    QueryBlock(args, first, rows, packed_k, scores);
    first += rows;
  }
}

}  // namespace

void FillAttention(SimdTable& table) {
  table.attention_scratch_floats = ScratchFloats;
  table.attention_head = AttentionHead;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
