// Convolution with a single tap, in steps of one, of images that lie plane by
// plane: a product of the weight and each image, as both lie.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cpu/convolution_call.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/image.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

using Param = ConvolutionParam;

constexpr int64_t kBytes = sizeof(float);

struct State {
  Image x, out;
  // Of a block of an image's pixels, and of the last one.
  Product block, last;
  int64_t block_pixels = 0, blocks = 0;  // Of an image.
  int bias_arg = -1, out_arg = -1;
  int64_t scratch_each = 0;  // Floats, of a thread.
  int num_threads = 1;

  int64_t pixels() const { return x.h * x.w; }
};

void AddBias(const State& s, const float* bias, int64_t pixels, float* out) {
  for (int64_t c = 0; c < s.out.c; ++c, out += s.out.c_stride) {
    const float b = bias[c];
    for (int64_t p = 0; p < pixels; ++p) out[p] += b;
  }
}

bool Launch(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const State*>(state);
  const auto* x = static_cast<const float*>(args[Param::kX]);
  auto* out = static_cast<float*>(args[s.out_arg]);
  auto* scratch = static_cast<float*>(args[s.out_arg + 1]);
  ParallelPieces(
      s.num_threads, s.x.n * s.blocks,
      [&](int piece, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t image = i / s.blocks, block = i % s.blocks;
          const int64_t pixel = block * s.block_pixels;
          const bool is_last = block == s.blocks - 1;
          float* to = out + image * s.out.n_stride + pixel;
          (is_last ? s.last : s.block)
              .Run({.a = static_cast<const float*>(args[Param::kWeight]),
                    .b = x + image * s.x.n_stride + pixel,
                    .c = to,
                    .scratch = scratch + piece * s.scratch_each});
          if (s.bias_arg < 0) continue;
          AddBias(s, static_cast<const float*>(args[s.bias_arg]),
                  is_last ? s.pixels() - pixel : s.block_pixels, to);
        }
      });
  return true;
}

// Each channel's pixels follow each other.
bool HasPlanes(const Image& image) {
  return (image.w == 1 || image.w_stride == 1) &&
         (image.h == 1 || image.h_stride == image.w);
}

// Of volumes the first two axes are one, if they lie so.
TensorType AsImages(const TensorType& type) {
  if (type.rank() != 5 || !type.is_row_major()) return type;
  const Dims& dims = type.dims;
  return {.dtype = type.dtype,
          .dims = {dims[0], dims[1], dims[2] * dims[3], dims[4]}};
}

std::optional<std::string> SetState(const KernelRequest& request, State& s) {
  const Operand& weight = request.operands[Param::kWeight];
  const TensorType x = AsImages(request.operands[Param::kX].type);
  const TensorType out = AsImages(request.results[0].type);
  if (request.Bool(Param::kTransposed)) return "is transposed";
  if (request.Int(Param::kGroups) != 1) return "has groups";
  if (x.rank() > 4 || out.rank() > 4) return "has more than two axes";
  if (out.num_elements() == 0 || x.num_elements() == 0) return "is empty";
  const bool is_image = request.operands[Param::kX].type.rank() <= 4;
  if (weight.is_frozen && is_image) return "a frozen weight is packed";
  if (weight.type.num_elements() != weight.type.dims[0] * weight.type.dims[1]) {
    return "has more than one tap";
  }
  if (!IsAll(request.Ints(Param::kStride), 1) ||
      !IsAll(request.Ints(Param::kPadding), 0)) {
    return "steps over pixels, or pads them";
  }
  s.x = ImageOf(x);
  s.out = ImageOf(out);
  if (!HasPlanes(s.x) || !HasPlanes(s.out)) return "has no planes";
  s.out_arg = static_cast<int>(request.operands.size());
  s.bias_arg = request.OperandIndex(Param::kBias);
  if (s.bias_arg >= 0 && !request.operands[s.bias_arg].type.is_row_major()) {
    return "the bias has gaps";
  }
  return std::nullopt;
}

// Blocks of equal size, whose results stay in the second-level cache.
void SetBlocks(const KernelRequest& request, State& s) {
  constexpr int64_t kBlockFloats = 32 * 1024;
  const int64_t panel = Simd().gemm_cols;
  const int64_t most =
      std::max(kBlockFloats / std::max(s.x.c, s.out.c) / panel, int64_t{4});
  const int64_t panels = (s.pixels() + panel - 1) / panel;
  s.blocks = (panels + most - 1) / most;
  s.block_pixels = (panels + s.blocks - 1) / s.blocks * panel;
  s.blocks = (s.pixels() + s.block_pixels - 1) / s.block_pixels;
  const double work =
      static_cast<double>(s.out.elements()) * static_cast<double>(s.x.c);
  s.num_threads = UsefulThreadsOfProduct(request.num_threads, work);
}

std::optional<std::string> PrepareProduct(const State& s,
                                          const TensorType& weight,
                                          int64_t pixels, Product& product) {
  const Dims strides = weight.EffectiveStrides();
  return Product::Prepare({.m = s.out.c,
                           .n = pixels,
                           .k = s.x.c,
                           .a_row_stride = strides[0],
                           .a_col_stride = strides[1],
                           .b_row_stride = s.x.c_stride,
                           .c_row_stride = s.out.c_stride},
                          product);
}

Verdict PrepareSingleTap(const KernelRequest& request) {
  auto state = std::make_shared<State>();
  State& s = *state;
  if (auto no = SetState(request, s)) return No{*no};
  SetBlocks(request, s);
  const TensorType& weight = request.operands[Param::kWeight].type;
  const int64_t last = s.pixels() - (s.blocks - 1) * s.block_pixels;
  if (auto no = PrepareProduct(s, weight, s.block_pixels, s.block)) {
    return No{*no};
  }
  if (auto no = PrepareProduct(s, weight, last, s.last)) return No{*no};
  s.scratch_each = RoundUpFloats(
      std::max(s.block.scratch_floats(), s.last.scratch_floats()));
  Prepared prepared;
  prepared.launch = Launch;
  // An address to hand on, if there is nothing to keep.
  prepared.scratch_bytes =
      std::max<int64_t>(s.scratch_each, 1) * s.num_threads * kBytes;
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterSingleTapConvolution(KernelRegistry& registry) {
  registry.Add({.op = "aten.convolution", .dtype = DType::kF32},
               KernelRank::kFast,
               {"cpu.single_tap_convolution", PrepareSingleTap});
}

}  // namespace mica::cpu
