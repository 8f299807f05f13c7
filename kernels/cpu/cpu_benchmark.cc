// Which way of multiplying matrices wins at which size, and what do the other
// loops of a transformer layer cost, on one core?
//
// Arguments of products: rows of x, columns of the result, depth. "Packed" is
// for frozen weights, "InPlace" reads a weight [n, k] at every run; "Cold" has
// frozen ones as a model has them: each run's is another, from beyond the
// second-level cache.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "benchmark/benchmark.h"
#include "glog/logging.h"
#include "kernels/cpu/benchmark_floats.h"
#include "kernels/cpu/onednn_matmul.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/simd_table.h"
#include "libxsmm.h"

namespace mica::cpu {
namespace {

enum class Weight { kPacked, kInPlace, kCold };

// How many copies of a weight runs take in turn.
int64_t NumCopies(Weight weight, int64_t floats) {
  constexpr int64_t kColdFloats = 32 * 1024 * 1024;
  return weight == Weight::kCold ? std::max<int64_t>(kColdFloats / floats, 2)
                                 : 1;
}

void RunTiles(benchmark::State& state, Weight weight, Activation activation) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Product product;
  const auto no = Product::Prepare({.m = m,
                                    .n = n,
                                    .k = k,
                                    .a_row_stride = k,
                                    .b_row_stride = 1,
                                    .b_col_stride = k,
                                    .c_row_stride = n,
                                    .has_bias = true,
                                    .activation = activation,
                                    .is_frozen = weight != Weight::kInPlace},
                                   product);
  CHECK(!no.has_value()) << *no;
  const Floats a = MakeFloats(m * k), w = MakeFloats(n * k),
               c = MakeFloats(m * n), bias = MakeFloats(n);
  const int64_t floats = product.packed_floats(),
                copies = NumCopies(weight, floats);
  const Floats packed = MakeFloats(floats * copies);
  const Floats scratch = MakeFloats(product.scratch_floats());
  int64_t next = 0;
  for (; next < copies; ++next) {
    product.Pack(w.get(), packed.get() + next * floats);
  }
  for (auto _ : state) {
    next = next + 1 < copies ? next + 1 : 0;
    product.Run({.a = a.get(),
                 .b = weight == Weight::kInPlace ? w.get()
                                                 : packed.get() + next * floats,
                 .bias = bias.get(),
                 .c = c.get(),
                 .scratch = scratch.get()});
  }
  CountFlops(state, 2 * m * n * k);
}

void RunOneDnn(benchmark::State& state, Weight weight, Activation activation) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  auto matmul = OneDnnMatmul::Create({.m = m,
                                      .n = n,
                                      .k = k,
                                      .a_strides = {0, k, 1},
                                      .b_strides = {0, 1, k},
                                      .c_strides = {0, n, 1},
                                      .has_bias = true,
                                      .activation = activation,
                                      .is_packed = weight != Weight::kInPlace});
  CHECK(matmul.ok()) << matmul.status();
  auto run = OneDnnMatmulRun::Create(**matmul);
  CHECK(run.ok()) << run.status();
  const Floats a = MakeFloats(m * k), w = MakeFloats(n * k),
               c = MakeFloats(m * n), bias = MakeFloats(n);
  const int64_t floats = (*matmul)->packed_bytes() / 4 / 16 * 16 + 16,
                copies = NumCopies(weight, floats);
  const Floats packed = MakeFloats(floats * copies);
  const Floats scratch = MakeFloats((*matmul)->scratch_bytes() / 4 + 16);
  int64_t next = 0;
  for (; next < copies; ++next) {
    CHECK((*matmul)->Pack(w.get(), packed.get() + next * floats).ok());
  }
  for (auto _ : state) {
    next = next + 1 < copies ? next + 1 : 0;
    const float* b =
        weight == Weight::kInPlace ? w.get() : packed.get() + next * floats;
    const absl::Status status =
        (*run)->Run(a.get(), b, bias.get(), nullptr, c.get(), scratch.get());
    CHECK(status.ok()) << status;
  }
  CountFlops(state, 2 * m * n * k);
}

// The weight as [k, n], the only form that libxsmm has; no bias.
void BM_XsmmPlain(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const float one = 1, zero = 0;
  const int flags = LIBXSMM_GEMM_FLAG_NONE;
  const auto rows = static_cast<libxsmm_blasint>(n);
  // Row-major operands are the transposes of column-major ones.
  const auto kernel = libxsmm_smmdispatch(
      rows, static_cast<libxsmm_blasint>(m), static_cast<libxsmm_blasint>(k),
      nullptr, nullptr, nullptr, &one, &zero, &flags, nullptr);
  if (kernel == nullptr) {
    state.SkipWithError("no kernel");
    return;
  }
  const Floats a = MakeFloats(m * k), b = MakeFloats(n * k),
               c = MakeFloats(m * n);
  for (auto _ : state) kernel(b.get(), a.get(), c.get());
  CountFlops(state, 2 * m * n * k);
}

void BM_TilesPlain(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Product product;
  const auto no = Product::Prepare({.m = m,
                                    .n = n,
                                    .k = k,
                                    .a_row_stride = k,
                                    .b_row_stride = n,
                                    .c_row_stride = n},
                                   product);
  CHECK(!no.has_value()) << *no;
  const Floats a = MakeFloats(m * k), b = MakeFloats(n * k),
               c = MakeFloats(m * n);
  const Floats scratch = MakeFloats(product.scratch_floats());
  for (auto _ : state) {
    product.Run(
        {.a = a.get(), .b = b.get(), .c = c.get(), .scratch = scratch.get()});
  }
  CountFlops(state, 2 * m * n * k);
}

void BM_TilesPacked(benchmark::State& state) {
  RunTiles(state, Weight::kPacked, Activation::kNone);
}
void BM_TilesPackedGelu(benchmark::State& state) {
  RunTiles(state, Weight::kPacked, Activation::kGeluErf);
}
void BM_TilesCold(benchmark::State& state) {
  RunTiles(state, Weight::kCold, Activation::kNone);
}
void BM_TilesInPlace(benchmark::State& state) {
  RunTiles(state, Weight::kInPlace, Activation::kNone);
}
void BM_OneDnnPacked(benchmark::State& state) {
  RunOneDnn(state, Weight::kPacked, Activation::kNone);
}
void BM_OneDnnPackedGelu(benchmark::State& state) {
  RunOneDnn(state, Weight::kPacked, Activation::kGeluErf);
}
void BM_OneDnnCold(benchmark::State& state) {
  RunOneDnn(state, Weight::kCold, Activation::kNone);
}
void BM_OneDnnInPlace(benchmark::State& state) {
  RunOneDnn(state, Weight::kInPlace, Activation::kNone);
}

void Tiny(benchmark::internal::Benchmark* b) {
  for (int64_t m : {1, 4, 8, 32, 64}) b->Args({m, 64, 64});
  b->Args({32, 32, 32})->Args({8, 256, 64})->Args({128, 256, 64});
}
void Layers(benchmark::internal::Benchmark* b) {
  for (int64_t m : {64, 512, 2048}) {
    b->Args({m, 384, 384})->Args({m, 1536, 384})->Args({m, 384, 1536});
  }
  b->Args({128, 768, 768})->Args({128, 3072, 768})->Args({128, 768, 3072});
}
void Models(benchmark::internal::Benchmark* b) {
  for (int64_t m : {16, 32, 64, 128, 197, 256, 1024}) {
    b->Args({m, 768, 768})->Args({m, 3072, 768})->Args({m, 768, 3072});
    b->Args({m, 512, 512})->Args({m, 2048, 512});
  }
}
void All(benchmark::internal::Benchmark* b) {
  Tiny(b);
  Layers(b);
}
BENCHMARK(BM_TilesPacked)->Apply(All);
BENCHMARK(BM_OneDnnPacked)->Apply(All);
BENCHMARK(BM_TilesCold)->Apply(Models);
BENCHMARK(BM_OneDnnCold)->Apply(Models);
BENCHMARK(BM_TilesInPlace)->Apply(All);
BENCHMARK(BM_OneDnnInPlace)->Apply(All);
BENCHMARK(BM_TilesPackedGelu)->Apply(Layers);
BENCHMARK(BM_OneDnnPackedGelu)->Apply(Layers);
BENCHMARK(BM_TilesPlain)->Apply(All);
BENCHMARK(BM_XsmmPlain)->Apply(Tiny);

// Twelve heads that lie next to each other; arguments: tokens, head size.
void BM_Attention(benchmark::State& state) {
  constexpr int64_t kHeads = 12;
  const int64_t s = state.range(0), d = state.range(1), width = kHeads * d;
  const Floats q = MakeFloats(s * width), k = MakeFloats(s * width),
               v = MakeFloats(s * width), out = MakeFloats(s * width);
  const Floats scratch = MakeFloats(Simd().attention_scratch_floats(s, d, d));
  for (auto _ : state) {
    for (int64_t h = 0; h < kHeads; ++h) {
      Simd().attention_head({.q = q.get() + h * d,
                             .k = k.get() + h * d,
                             .v = v.get() + h * d,
                             .out = out.get() + h * d,
                             .q_row_stride = width,
                             .k_row_stride = width,
                             .v_row_stride = width,
                             .out_row_stride = width,
                             .num_queries = s,
                             .num_keys = s,
                             .head_dim = d,
                             .value_dim = d,
                             .scale = 0.2f,
                             .scratch = scratch.get()});
    }
  }
  CountFlops(state, 4 * kHeads * s * s * d);
}
BENCHMARK(BM_Attention)->ArgsProduct({{16, 64, 128, 256, 512}, {32, 64}});

void CountBytes(benchmark::State& state, int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
}

void BM_Unary(benchmark::State& state) {
  const int64_t n = state.range(1);
  const Floats x = MakeFloats(n), y = MakeFloats(n);
  const UnaryFn fn = Simd().unary[state.range(0)][0];
  for (auto _ : state) fn(x.get(), y.get(), n);
  CountBytes(state, 2 * n * 4);
}
BENCHMARK(BM_Unary)->ArgsProduct(
    {{static_cast<int>(Unary::kExp), static_cast<int>(Unary::kErf),
      static_cast<int>(Unary::kTanh), static_cast<int>(Unary::kGeluErf)},
     {8192}});

void BM_Add(benchmark::State& state) {
  const int64_t n = state.range(0);
  const Floats x = MakeFloats(n), y = MakeFloats(n);
  const BinaryFn fn = Simd().binary[0][0][0];
  for (auto _ : state) fn(x.get(), y.get(), y.get(), n, nullptr);
  CountBytes(state, 3 * n * 4);
}
BENCHMARK(BM_Add)->Arg(1)->Arg(64)->Arg(8192)->Arg(1 << 20);

// Arguments: rows, their length.
void BM_AddLayerNorm(benchmark::State& state) {
  const int64_t rows = state.range(0), n = state.range(1);
  const Floats x = MakeFloats(rows * n), r = MakeFloats(rows * n),
               y = MakeFloats(rows * n), gamma = MakeFloats(n),
               beta = MakeFloats(n);
  for (auto _ : state) {
    Simd().layer_norm({.x = x.get(),
                       .addend = r.get(),
                       .gamma = gamma.get(),
                       .beta = beta.get(),
                       .y = y.get(),
                       .rows = rows,
                       .n = n,
                       .eps = 1e-5f});
  }
  CountBytes(state, 3 * rows * n * 4);
}
BENCHMARK(BM_AddLayerNorm)->Args({64, 384})->Args({512, 384})->Args({128, 768});

void BM_Softmax(benchmark::State& state) {
  const int64_t rows = state.range(0), n = state.range(1);
  const Floats x = MakeFloats(rows * n), y = MakeFloats(rows * n);
  for (auto _ : state) Simd().softmax(x.get(), y.get(), rows, n);
  CountBytes(state, 2 * rows * n * 4);
}
BENCHMARK(BM_Softmax)->Args({64, 128})->Args({512, 512});

}  // namespace
}  // namespace mica::cpu
