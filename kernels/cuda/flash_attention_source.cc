#include "kernels/cuda/flash_attention_source.h"

namespace mica::cuda {

// One block keeps 64 rows of one side, A, and goes over tiles of rows of the
// other, B: products of both on tensor cores, scores in registers. Forward, A
// is queries and B keys; sums are rescaled whenever a row's largest score
// grows. Backward, scores are computed again, once by rows of queries (A:
// queries and gradients, for the queries' gradient), once by rows of keys (A:
// keys and values, for theirs): so no two blocks add to the same place, and
// results don't depend on who comes first. Source: Dao (2023),
// "FlashAttention-2".
const char* const kFlashTools = R"cuda(
__device__ __forceinline__ unsigned shared_address(const element* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ void load_matrices(unsigned (&r)[4],
                                              const element* p) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(shared_address(p)));
}
__device__ __forceinline__ void load_turned(unsigned (&r)[4],
                                            const element* p) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(shared_address(p)));
}
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4],
                                         unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32." HALF "." HALF ".f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned pair_of(float low, float high) {
  return (unsigned)put<element>(low).bits |
         (unsigned)put<element>(high).bits << 16;
}

// Rows first.. of a matrix to shared memory; what isn't there is 0.
__device__ __forceinline__ void load_tile(element* to, const element* from,
                                          long long stride, int first,
                                          int num_rows, int tile_rows) {
  const bool is_aligned = (unsigned long long)from % 16 == 0;
  for (int at = threadIdx.x; at < tile_rows * (SIZE / 8); at += THREADS) {
    const int row = at / (SIZE / 8), column = at % (SIZE / 8) * 8;
    Vec<element, 8> v = {};
    if (first + row < num_rows && column < HEAD) {
      v = load_vec<8>(from + (first + row) * stride + column, is_aligned);
    }
    *(Vec<element, 8>*)(to + row * STRIDE + column) = v;
  }
}

// c = A * B^T of this warp's 16 rows of A and all rows of B.
__device__ __forceinline__ void score(float (&c)[COLUMNS / 8][4],
                                      const element* a, const element* b) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int n = 0; n < COLUMNS / 8; ++n) {
    c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
  }
#pragma unroll
  for (int k = 0; k < SIZE; k += 16) {
    unsigned as[4];
    load_matrices(as, a + (warp * 16 + lane % 16) * STRIDE + k + lane / 16 * 8);
#pragma unroll
    for (int n = 0; n < COLUMNS; n += 16) {
      unsigned bs[4];
      load_matrices(bs, b + (n + lane / 16 * 8 + lane % 8) * STRIDE + k +
                            lane / 8 % 2 * 8);
      multiply(c[n / 8], as, bs[0], bs[1]);
      multiply(c[n / 8 + 1], as, bs[2], bs[3]);
    }
  }
}

// acc += P * B, where p holds this warp's 16 rows of P.
__device__ __forceinline__ void add_product(float (&acc)[SIZE / 8][4],
                                            const float (&p)[COLUMNS / 8][4],
                                            const element* b) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < COLUMNS; k += 16) {
    const float(&left)[4] = p[k / 8];
    const float(&right)[4] = p[k / 8 + 1];
    const unsigned as[4] = {pair_of(left[0], left[1]),
                            pair_of(left[2], left[3]),
                            pair_of(right[0], right[1]),
                            pair_of(right[2], right[3])};
#pragma unroll
    for (int n = 0; n < SIZE; n += 16) {
      unsigned bs[4];
      load_turned(bs, b + (k + lane / 8 % 2 * 8 + lane % 8) * STRIDE + n +
                          lane / 16 * 8);
      multiply(acc[n / 8], as, bs[0], bs[1]);
      multiply(acc[n / 8 + 1], as, bs[2], bs[3]);
    }
  }
}

__device__ __forceinline__ void clear(float (&acc)[SIZE / 8][4]) {
#pragma unroll
  for (int n = 0; n < SIZE / 8; ++n) {
    acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
  }
}

// This warp's 16 rows, each times its factor.
__device__ __forceinline__ void store_rows(const float (&acc)[SIZE / 8][4],
                                           element* to, long long stride,
                                           int first, int num_rows,
                                           const float (&factor)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane / 4 + 8 * half;
    if (row >= num_rows) continue;
#pragma unroll
    for (int n = 0; n < SIZE / 8; ++n) {
      const int column = n * 8 + lane % 4 * 2;
      if (column >= HEAD) continue;
      element* at = to + row * stride + column;
      at[0] = put<element>(acc[n][2 * half] * factor[half]);
      at[1] = put<element>(acc[n][2 * half + 1] * factor[half]);
    }
  }
}
)cuda";

const char* const kFlashForward = R"cuda(
  __shared__ alignas(16) element as[ROWS * STRIDE], bs[COLUMNS * STRIDE],
      vs[COLUMNS * STRIDE];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int block_row = blockIdx.x * ROWS, warp_row = block_row + warp * 16;
  load_tile(as, q + Q_AT, Q_STRIDE, block_row, QUERIES, ROWS);
  float acc[SIZE / 8][4], most[2] = {-infinity(), -infinity()}, sum[2] = {0, 0};
  clear(acc);
  const int last = CAUSAL ? min(KEYS, block_row + ROWS) : KEYS;
  for (int first = 0; first < last; first += COLUMNS) {
    __syncthreads();
    load_tile(bs, k + K_AT, K_STRIDE, first, KEYS, COLUMNS);
    load_tile(vs, v + V_AT, V_STRIDE, first, KEYS, COLUMNS);
    __syncthreads();
    float p[COLUMNS / 8][4];
    score(p, as, bs);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + lane / 4 + 8 * half;
      float high = most[half];
#pragma unroll
      for (int n = 0; n < COLUMNS / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = first + n * 8 + lane % 4 * 2 + e;
          float& x = p[n][2 * half + e];
          x = column >= KEYS || (CAUSAL && column > row) ? -infinity()
                                                         : x * SCALE;
          high = fmaxf(high, x);
        }
      }
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
      const float shift = high == -infinity() ? 0 : high;
      const float shrink = __expf(most[half] - shift);
      most[half] = high;
      sum[half] *= shrink;
#pragma unroll
      for (int n = 0; n < SIZE / 8; ++n) {
        acc[n][2 * half] *= shrink;
        acc[n][2 * half + 1] *= shrink;
      }
#pragma unroll
      for (int n = 0; n < COLUMNS / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = p[n][2 * half + e];
          x = __expf(x - shift);
          sum[half] += x;
        }
      }
    }
    add_product(acc, p, vs);
  }
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float& s = sum[half];
    s += __shfl_xor_sync(0xffffffffu, s, 1);
    s += __shfl_xor_sync(0xffffffffu, s, 2);
    factor[half] = s == 0 ? 0 : 1 / s;
    const int row = warp_row + lane / 4 + 8 * half;
    if (log_sum != 0 && lane % 4 == 0 && row < QUERIES) {
      log_sum[L_AT + row * L_STRIDE] = s == 0 ? 0 : most[half] + logf(s);
    }
  }
  store_rows(acc, out + OUT_AT, OUT_STRIDE, warp_row, QUERIES, factor);
}
)cuda";

const char* const kFlashBackwardQ = R"cuda(
  __shared__ alignas(16) element as[ROWS * STRIDE], gs[ROWS * STRIDE],
      bs[COLUMNS * STRIDE], vs[COLUMNS * STRIDE];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int block_row = blockIdx.x * ROWS, warp_row = block_row + warp * 16;
  load_tile(as, q + Q_AT, Q_STRIDE, block_row, QUERIES, ROWS);
  load_tile(gs, grad + G_AT, G_STRIDE, block_row, QUERIES, ROWS);
  float shift[2], dot[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp_row + lane / 4 + 8 * half;
    const bool is_row = row < QUERIES;
    shift[half] = is_row ? log_sum[L_AT + row * L_STRIDE] : 0;
    dot[half] = is_row ? dots[DOTS_AT + row] : 0;
  }
  float acc[SIZE / 8][4];
  clear(acc);
  const int last = CAUSAL ? min(KEYS, block_row + ROWS) : KEYS;
  for (int first = 0; first < last; first += COLUMNS) {
    __syncthreads();
    load_tile(bs, k + K_AT, K_STRIDE, first, KEYS, COLUMNS);
    load_tile(vs, v + V_AT, V_STRIDE, first, KEYS, COLUMNS);
    __syncthreads();
    float p[COLUMNS / 8][4], d[COLUMNS / 8][4];
    score(p, as, bs);
    score(d, gs, vs);
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int half = e / 2, row = warp_row + lane / 4 + 8 * half;
        const int column = first + n * 8 + lane % 4 * 2 + e % 2;
        const bool is_seen = column < KEYS && !(CAUSAL && column > row);
        const float w = is_seen ? __expf(p[n][e] * SCALE - shift[half]) : 0;
        p[n][e] = w * (d[n][e] - dot[half]) * SCALE;
      }
    }
    add_product(acc, p, bs);
  }
  const float ones[2] = {1, 1};
  store_rows(acc, dq + DQ_AT, DQ_STRIDE, warp_row, QUERIES, ones);
}
)cuda";

const char* const kFlashBackwardKV = R"cuda(
  __shared__ alignas(16) element as[ROWS * STRIDE], gs[ROWS * STRIDE],
      bs[COLUMNS * STRIDE], vs[COLUMNS * STRIDE];
  __shared__ float shifts[COLUMNS], all_dots[COLUMNS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int block_row = blockIdx.x * ROWS, warp_row = block_row + warp * 16;
  load_tile(as, k + K_AT, K_STRIDE, block_row, KEYS, ROWS);
  load_tile(gs, v + V_AT, V_STRIDE, block_row, KEYS, ROWS);
  float keys[SIZE / 8][4], values[SIZE / 8][4];
  clear(keys);
  clear(values);
  const int begin = CAUSAL ? block_row / COLUMNS * COLUMNS : 0;
  for (int first = begin; first < QUERIES; first += COLUMNS) {
    __syncthreads();
    load_tile(bs, q + Q_AT, Q_STRIDE, first, QUERIES, COLUMNS);
    load_tile(vs, grad + G_AT, G_STRIDE, first, QUERIES, COLUMNS);
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS) {
      const bool is_row = first + i < QUERIES;
      shifts[i] = is_row ? log_sum[L_AT + (first + i) * L_STRIDE] : 0;
      all_dots[i] = is_row ? dots[DOTS_AT + first + i] : 0;
    }
    __syncthreads();
    float p[COLUMNS / 8][4], d[COLUMNS / 8][4];
    score(p, as, bs);
    score(d, gs, vs);
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = warp_row + lane / 4 + e / 2 * 8;
        const int i = n * 8 + lane % 4 * 2 + e % 2, column = first + i;
        const bool is_seen = column < QUERIES && !(CAUSAL && row > column);
        const float w = is_seen ? __expf(p[n][e] * SCALE - shifts[i]) : 0;
        d[n][e] = w * (d[n][e] - all_dots[i]) * SCALE;
        p[n][e] = w;
      }
    }
    add_product(values, p, vs);
    add_product(keys, d, bs);
  }
  const float ones[2] = {1, 1};
  if (dk != 0) store_rows(keys, dk + DK_AT, DK_STRIDE, warp_row, KEYS, ones);
  if (dv != 0) store_rows(values, dv + DV_AT, DV_STRIDE, warp_row, KEYS, ones);
}
)cuda";

}  // namespace mica::cuda
