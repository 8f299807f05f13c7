// Gradients of scaled dot-product attention, float32: blocks of queries, each
// product on the tiles of gemm.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// Queries that go through at once: their scores stay in the second-level
// cache.
constexpr int64_t kBlock = 64;

// A [batch, head, row, column] operand with unit stride along columns.
struct Place {
  int arg = -1;
  int64_t batch = 0, head = 0, row = 0, col = 1;
};

struct State {
  int64_t batch = 0, heads = 0;
  int64_t queries = 0, keys = 0, dim = 0, value_dim = 0;
  Place dy, q, k, v, out, lse, mask, dq, dk, dv;
  bool is_bool_mask = false;
  bool is_causal = false;
  float scale = 1;
  int scratch_arg = -1;
  int64_t scratch_floats = 0;  // Of one thread.
  int num_threads = 1;
};

// The parts of one thread's scratch memory.
struct Scratch {
  float* keys;    // Packed, scaled, transposed.
  float* values;  // Packed, transposed.
  float* scores;  // [kBlock, RowStride], then the weights.
  float* slopes;  // [kBlock, RowStride].
  float* turned;  // [keys, kBlock].
};

// Distance of rows of scores: no multiple of a page, which would have them
// push each other out of the cache.
int64_t RowStride(const State& s) { return RoundUpFloats(s.keys) + 16; }

int64_t ScratchFloats(const State& s) {
  return RoundUpFloats(Simd().PackedFloats(s.keys, s.dim)) +
         RoundUpFloats(Simd().PackedFloats(s.keys, s.value_dim)) +
         2 * kBlock * RowStride(s) + kBlock * RoundUpFloats(s.keys);
}

Scratch Divide(const State& s, float* at) {
  Scratch scratch;
  auto take = [&at](int64_t floats) {
    float* part = at;
    at += RoundUpFloats(floats);
    return part;
  };
  scratch.keys = take(Simd().PackedFloats(s.keys, s.dim));
  scratch.values = take(Simd().PackedFloats(s.keys, s.value_dim));
  scratch.scores = take(kBlock * RowStride(s));
  scratch.slopes = take(kBlock * RowStride(s));
  scratch.turned = at;
  return scratch;
}

template <typename T = float>
T* At(void* const* args, const Place& place, int64_t b, int64_t h,
      int64_t row = 0) {
  return static_cast<T*>(args[place.arg]) + b * place.batch + h * place.head +
         row * place.row;
}

// Adds the mask to one row of scores.
void MaskRow(const State& s, void* const* args, int64_t b, int64_t h,
             int64_t row, float* scores, int64_t n) {
  if (s.mask.arg < 0) return;
  if (s.is_bool_mask) {
    const bool* mask = At<bool>(args, s.mask, b, h, row);
    for (int64_t i = 0; i < n; ++i) {
      if (!mask[i * s.mask.col]) {
        scores[i] = -std::numeric_limits<float>::infinity();
      }
    }
    return;
  }
  const float* mask = At(args, s.mask, b, h, row);
  for (int64_t i = 0; i < n; ++i) scores[i] += mask[i * s.mask.col];
}

// One block of queries, rows begin..end, which sees the first `keys` keys.
class BlockRun {
 public:
  BlockRun(const State& s, void* const* args, const Scratch& scratch, int64_t b,
           int64_t h)
      : s_(s),
        args_(args),
        scratch_(scratch),
        b_(b),
        h_(h),
        stride_(RowStride(s)) {}

  void Run(int64_t begin, int64_t end) {
    begin_ = begin;
    rows_ = end - begin;
    keys_ = s_.is_causal ? std::min(s_.keys, end) : s_.keys;
    Score(s_.q, scratch_.keys, s_.dim, scratch_.scores);
    Score(s_.dy, scratch_.values, s_.value_dim, scratch_.slopes);
    for (int64_t i = 0; i < rows_; ++i) TurnRow(i);
    if (s_.dq.arg >= 0) {
      Simd().gemm({.a = scratch_.slopes,
                   .a_row_stride = stride_,
                   .b = At(args_, s_.k, b_, h_),
                   .b_row_stride = s_.k.row,
                   .b_panel_stride = Simd().gemm_cols,
                   .c = At(args_, s_.dq, b_, h_, begin_),
                   .c_row_stride = s_.dq.row,
                   .m = rows_,
                   .n = s_.dim,
                   .k = keys_});
    }
    AddTurned(scratch_.slopes, s_.q, s_.dim, s_.dk);
    AddTurned(scratch_.scores, s_.dy, s_.value_dim, s_.dv);
  }

 private:
  // to[rows, keys] = the block's rows of `a` by a packed matrix.
  void Score(const Place& a, const float* packed, int64_t k, float* to) {
    const int64_t cols = Simd().gemm_cols;
    Simd().gemm({.a = At(args_, a, b_, h_, begin_),
                 .a_row_stride = a.row,
                 .b = packed,
                 .b_row_stride = cols,
                 .b_panel_stride = cols * k,
                 .c = to,
                 .c_row_stride = stride_,
                 .m = rows_,
                 .n = keys_,
                 .k = k});
  }

  void TurnRow(int64_t i) {
    const int64_t row = begin_ + i;
    const int64_t seen = s_.is_causal ? std::min(keys_, row + 1) : keys_;
    float* scores = scratch_.scores + i * stride_;
    float* slopes = scratch_.slopes + i * stride_;
    MaskRow(s_, args_, b_, h_, row, scores, seen);
    const float delta =
        Simd().dot(At(args_, s_.dy, b_, h_, row),
                   At(args_, s_.out, b_, h_, row), s_.value_dim);
    Simd().attention_slopes(scores, slopes, seen,
                            *At(args_, s_.lse, b_, h_, row), delta, s_.scale);
    std::fill(scores + seen, scores + keys_, 0.0f);
    std::fill(slopes + seen, slopes + keys_, 0.0f);
  }

  // c[keys, n] += from[rows, keys]^T b[rows, n]; the first block sets it.
  void AddTurned(const float* from, const Place& b, int64_t n,
                 const Place& to) {
    if (to.arg < 0) return;
    Simd().transpose32(from, stride_, scratch_.turned, kBlock, rows_, keys_);
    float* c = At(args_, to, b_, h_);
    Simd().gemm({.a = scratch_.turned,
                 .a_row_stride = kBlock,
                 .b = At(args_, b, b_, h_, begin_),
                 .b_row_stride = b.row,
                 .b_panel_stride = Simd().gemm_cols,
                 .c = c,
                 .c_row_stride = to.row,
                 .m = keys_,
                 .n = n,
                 .k = rows_,
                 .residual = c,
                 .residual_row_stride = to.row});
  }

  const State& s_;
  void* const* args_;
  const Scratch& scratch_;
  int64_t b_, h_, stride_;
  int64_t begin_ = 0, rows_ = 0, keys_ = 0;
};

void Clear(void* const* args, const Place& place, int64_t b, int64_t h,
           int64_t rows, int64_t n) {
  if (place.arg < 0) return;
  for (int64_t i = 0; i < rows; ++i) {
    std::memset(At(args, place, b, h, i), 0,
                static_cast<size_t>(n) * sizeof(float));
  }
}

void RunHead(const State& s, void* const* args, const Scratch& scratch,
             int64_t b, int64_t h) {
  Simd().pack_transposed(At(args, s.k, b, h), s.k.row, s.keys, s.dim, s.scale,
                         scratch.keys);
  Simd().pack_transposed(At(args, s.v, b, h), s.v.row, s.keys, s.value_dim,
                         1.0f, scratch.values);
  Clear(args, s.dk, b, h, s.keys, s.dim);
  Clear(args, s.dv, b, h, s.keys, s.value_dim);
  BlockRun block(s, args, scratch, b, h);
  for (int64_t begin = 0; begin < s.queries; begin += kBlock) {
    block.Run(begin, std::min(begin + kBlock, s.queries));
  }
}

bool Launch(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const State*>(state);
  ParallelPieces(s.num_threads, s.batch * s.heads,
                 [&](int piece, int64_t begin, int64_t end) {
                   const Scratch scratch =
                       Divide(s, static_cast<float*>(args[s.scratch_arg]) +
                                     piece * s.scratch_floats);
                   for (int64_t i = begin; i < end; ++i) {
                     RunHead(s, args, scratch, i / s.heads, i % s.heads);
                   }
                 });
  return true;
}

// Strides of `type` broadcast to four dims.
Place PlaceOf(const TensorType& type, int arg) {
  const Dims own = type.EffectiveStrides();
  int64_t all[4] = {};
  for (int i = 0; i < type.rank(); ++i) {
    if (type.dims[i] != 1) all[4 - type.rank() + i] = own[i];
  }
  return {arg, all[0], all[1], all[2], all[3]};
}

bool HasUnitColumns(const TensorType& type) {
  return type.dims[3] <= 1 || type.EffectiveStrides()[3] == 1;
}

Verdict Prepare(const KernelRequest& request) {
  for (int i = 0; i < 6; ++i) {
    const TensorType& type = request.operands[i].type;
    if (type.dtype != DType::kF32) return No{"not f32 throughout"};
    if (i < 5 && !HasUnitColumns(type)) {
      return No{"features aren't next to each other"};
    }
  }
  State s;
  const int out = static_cast<int>(request.operands.size());
  Place* const results[] = {&s.dq, &s.dk, &s.dv};
  for (int i = 0; i < 3; ++i) {
    const Operand& result = request.results[i];
    if (!HasUnitColumns(result.type)) return No{"a result has gaps"};
    *results[i] = PlaceOf(result.type, result.is_used ? out + i : -1);
  }
  Place* const operands[] = {&s.dy, &s.q, &s.k, &s.v, &s.out};
  for (int i = 0; i < 5; ++i) {
    *operands[i] = PlaceOf(request.operands[i].type, i);
  }
  const Dims lse = request.operands[5].type.EffectiveStrides();
  s.lse = {.arg = 5, .batch = lse[0], .head = lse[1], .row = lse[2]};
  s.mask.arg = request.OperandIndex(8);
  if (s.mask.arg >= 0) {
    const TensorType& mask = request.operands[s.mask.arg].type;
    s.is_bool_mask = mask.dtype == DType::kBool;
    if (!s.is_bool_mask && mask.dtype != DType::kF32) {
      return No{"the mask is neither f32 nor bool"};
    }
    s.mask = PlaceOf(mask, s.mask.arg);
  }
  const TensorType& q = request.operands[1].type;
  s.batch = q.dims[0];
  s.heads = q.dims[1];
  s.queries = q.dims[2];
  s.dim = q.dims[3];
  s.keys = request.operands[2].type.dims[2];
  s.value_dim = request.operands[3].type.dims[3];
  if (q.num_elements() == 0 || s.keys == 0 || s.value_dim == 0) {
    return No{"no elements"};
  }
  s.is_causal = request.Bool(7);
  s.scale = request.Has(9) ? static_cast<float>(request.Number(9))
                           : 1.0f / std::sqrt(static_cast<float>(s.dim));
  s.scratch_arg = out + 3;
  s.scratch_floats = ScratchFloats(s);
  s.num_threads = UsefulThreads(request.num_threads,
                                s.batch * s.heads * s.queries * s.keys);
  Prepared prepared;
  prepared.launch = Launch;
  prepared.scratch_bytes =
      s.scratch_floats * s.num_threads * static_cast<int64_t>(sizeof(float));
  prepared.state = std::make_shared<const State>(s);
  return prepared;
}

}  // namespace

void RegisterAttentionBackward(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  registry.Add("aten._scaled_dot_product_flash_attention_for_cpu_backward",
               kFloat, KernelRank::kFast, {"cpu.attention_backward", Prepare});
}

}  // namespace mica::cpu
