// For which sizes is Winograd's method faster than the plain convolution, on
// one core? Arguments: images, rows and columns of an image, channels, columns
// of the result.

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "benchmark/benchmark.h"
#include "kernels/cpu/benchmark_floats.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// One layer: 3 by 3 taps, padding 1, bias and ReLU.
struct Layer {
  explicit Layer(const benchmark::State& state)
      : images(state.range(0)),
        size(state.range(1)),
        channels(state.range(2)),
        columns(state.range(3)) {
    conv.window = {.x = x.get(),
                   .x_image_stride = size * size * channels,
                   .x_row_stride = size * channels,
                   .x_col_stride = channels,
                   .in_rows = size,
                   .in_cols = size,
                   .out_rows = size,
                   .out_cols = size,
                   .kernel_rows = 3,
                   .kernel_cols = 3,
                   .row_padding = 1,
                   .col_padding = 1,
                   .channels = channels,
                   .out = out.get(),
                   .out_pixel_stride = columns,
                   .end = pixels};
    conv.columns = columns;
    conv.bias = bias.get();
    conv.activation = Activation::kRelu;
    conv.zeros = zeros.get();
    Simd().pack_convolution(plain.get(), columns, channels, 9, direct.get());
    conv.weight = direct.get();
  }

  int64_t flops() const { return 2 * 9 * pixels * channels * columns; }

  int64_t images, size, channels, columns;
  int64_t pixels = images * size * size;
  Floats x = MakeFloats(pixels * channels);
  Floats out = MakeFloats(pixels * columns);
  Floats bias = MakeFloats(columns);
  Floats plain = MakeFloats(9 * columns * channels);
  Floats direct = MakeFloats(Simd().PackedFloats(columns, 9 * channels));
  Floats zeros{static_cast<float*>(std::calloc(channels + 64, sizeof(float)))};
  ConvolutionArgs conv;
};

void BM_Plain(benchmark::State& state) {
  Layer layer(state);
  const Floats scratch =
      MakeFloats(Simd().convolution_scratch_bytes(layer.conv.window) / 4);
  layer.conv.scratch = scratch.get();
  for (auto _ : state) Simd().convolution(layer.conv);
  CountFlops(state, layer.flops());
}

void BM_Winograd(benchmark::State& state) {
  Layer layer(state);
  const Floats weight =
      MakeFloats(16 * Simd().PackedFloats(layer.columns, layer.channels));
  Simd().pack_winograd(layer.direct.get(), layer.columns, layer.channels,
                       weight.get());
  const int64_t side = (layer.size + 1) / 2;
  const int64_t patches = layer.images * side * side;
  const int64_t block = Simd().winograd_block(layer.channels, patches);
  const Floats scratch =
      MakeFloats(Simd().winograd_scratch_bytes(layer.conv.window, block) / 4);
  layer.conv.scratch = scratch.get();
  const WinogradArgs args = {.conv = layer.conv,
                             .weight = weight.get(),
                             .block = block,
                             .end = patches};
  for (auto _ : state) Simd().winograd(args);
  CountFlops(state, layer.flops());
}

// Layers of ResNet, DenseNet-121, and small ones.
void Layers(benchmark::internal::Benchmark* b) {
  for (const int64_t images : {1, 4}) {
    b->Args({images, 56, 64, 64});
    b->Args({images, 28, 128, 128});
    b->Args({images, 14, 256, 256});
    b->Args({images, 7, 512, 512});
    b->Args({images, 56, 128, 32});
    b->Args({images, 28, 128, 32});
    b->Args({images, 14, 128, 32});
    b->Args({images, 7, 128, 32});
    b->Args({images, 56, 32, 32});
    b->Args({images, 56, 16, 32});
    b->Args({images, 56, 64, 16});
    b->Args({images, 8, 32, 32});
  }
}
BENCHMARK(BM_Plain)->Apply(Layers);
BENCHMARK(BM_Winograd)->Apply(Layers);

}  // namespace
}  // namespace mica::cpu
