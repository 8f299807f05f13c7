// Batch norm out of training: folding it into a convolution, and scaling by
// channel.

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/cpu/activation_name.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/image.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// Where the norm's numbers are among a launch's arguments; -1 if absent.
struct NormArgs {
  int gamma = -1, beta = -1, mean = -1, variance = -1;
  double eps = 0;

  static double At(void* const* args, int arg, int64_t i, double otherwise) {
    return arg < 0 ? otherwise : static_cast<const float*>(args[arg])[i];
  }
  double Scale(void* const* args, int64_t i) const {
    return At(args, gamma, i, 1) / std::sqrt(At(args, variance, i, 0) + eps);
  }
  // Of x + bias.
  double Shift(void* const* args, int64_t i, double bias) const {
    return (bias - At(args, mean, i, 0)) * Scale(args, i) +
           At(args, beta, i, 0);
  }
};

// gamma, beta, mean, variance and eps are the parameters from `first` on.
NormArgs NormOf(const KernelRequest& request, int first) {
  return {.gamma = request.OperandIndex(first),
          .beta = request.OperandIndex(first + 1),
          .mean = request.OperandIndex(first + 2),
          .variance = request.OperandIndex(first + 3),
          .eps = request.Number(first + 4)};
}

bool AreRowMajor(const KernelRequest& request) {
  for (const Operand& operand : request.operands) {
    if (!operand.type.is_row_major()) return false;
  }
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major()) return false;
  }
  return true;
}

struct FoldState {
  NormArgs norm;
  int bias = -1, out = 0;
  int64_t channels = 0, each = 0;  // Weights of a channel.
};

bool LaunchFold(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const FoldState*>(state);
  const auto* weight = static_cast<const float*>(args[0]);
  auto* out = static_cast<float*>(args[s.out]);
  auto* out_bias = static_cast<float*>(args[s.out + 1]);
  for (int64_t c = 0; c < s.channels; ++c) {
    if (out != nullptr) {
      const auto scale = static_cast<float>(s.norm.Scale(args, c));
      const float* from = weight + c * s.each;
      float* to = out + c * s.each;
      for (int64_t i = 0; i < s.each; ++i) to[i] = from[i] * scale;
    }
    if (out_bias != nullptr) {
      out_bias[c] = static_cast<float>(
          s.norm.Shift(args, c, NormArgs::At(args, s.bias, c, 0)));
    }
  }
  return true;
}

Verdict PrepareFold(const KernelRequest& request) {
  if (!AreRowMajor(request)) return No{"operands aren't row-major"};
  const TensorType& weight = request.operands[0].type;
  if (weight.num_elements() == 0) return No{"is empty"};
  Prepared prepared;
  prepared.launch = LaunchFold;
  prepared.state = std::make_shared<const FoldState>(
      FoldState{.norm = NormOf(request, 2),
                .bias = request.OperandIndex(1),
                .out = static_cast<int>(request.operands.size()),
                .channels = weight.dims[0],
                .each = weight.num_elements() / weight.dims[0]});
  return prepared;
}

bool LaunchScale(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const FoldState*>(state);
  auto* scale = static_cast<float*>(args[s.out]);
  auto* shift = static_cast<float*>(args[s.out + 1]);
  for (int64_t c = 0; c < s.channels; ++c) {
    if (scale != nullptr) {
      scale[c] = static_cast<float>(s.norm.Scale(args, c));
    }
    if (shift != nullptr) {
      shift[c] = static_cast<float>(s.norm.Shift(args, c, 0));
    }
  }
  return true;
}

Verdict PrepareScale(const KernelRequest& request) {
  if (!AreRowMajor(request)) return No{"operands aren't row-major"};
  Prepared prepared;
  prepared.launch = LaunchScale;
  prepared.state = std::make_shared<const FoldState>(
      FoldState{.norm = NormOf(request, 0),
                .out = static_cast<int>(request.operands.size()),
                .channels = request.results[0].type.dims[0]});
  return prepared;
}

struct ChannelsState {
  Image x, out;
  bool by_rows = false;  // Of channels; else by planes.
  int64_t x_pixel_stride = 0, out_pixel_stride = 0;
  Activation activation = Activation::kNone;
  int num_threads = 1;
};

bool LaunchRows(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ChannelsState*>(state);
  Parallel(s.num_threads, s.x.pixels(), [&](int64_t begin, int64_t end) {
    Simd().scale_rows(
        static_cast<const float*>(args[0]) + begin * s.x_pixel_stride,
        s.x_pixel_stride, static_cast<const float*>(args[1]),
        static_cast<const float*>(args[2]), s.activation,
        static_cast<float*>(args[3]) + begin * s.out_pixel_stride,
        s.out_pixel_stride, end - begin, s.x.c);
  });
  return true;
}

bool LaunchPlanes(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ChannelsState*>(state);
  const auto* scale = static_cast<const float*>(args[1]);
  const auto* shift = static_cast<const float*>(args[2]);
  Parallel(s.num_threads, s.x.n * s.x.c, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i % s.x.c;
      Simd().scale_line(static_cast<const float*>(args[0]) +
                            i / s.x.c * s.x.n_stride + c * s.x.c_stride,
                        scale[c], shift[c], s.activation,
                        static_cast<float*>(args[3]) +
                            i / s.x.c * s.out.n_stride + c * s.out.c_stride,
                        s.x.h * s.x.w);
    }
  });
  return true;
}

bool HasDensePlanes(const Image& image) {
  return (image.w == 1 || image.w_stride == 1) &&
         (image.h == 1 || image.h_stride == image.w);
}

// x[n, c] is one pixel an image.
TensorType AtLeastRank3(TensorType type) {
  if (type.rank() == 2) {
    type.strides = type.EffectiveStrides();
    type.strides.push_back(1);
    type.dims.push_back(1);
  }
  return type;
}

Verdict PrepareScaleChannels(const KernelRequest& request) {
  const TensorType& x = request.operands[0].type;
  if (x.rank() > 4 || x.num_elements() == 0) return No{"no image"};
  for (int i = 1; i < 3; ++i) {
    if (!request.operands[i].type.is_row_major()) return No{"has gaps"};
  }
  const auto activation = ActivationNamed(request.String(3));
  if (!activation.has_value()) return No{"an unknown activation"};
  ChannelsState state = {
      .x = ImageOf(AtLeastRank3(x)),
      .out = ImageOf(AtLeastRank3(request.results[0].type)),
      .activation = *activation,
      .num_threads = UsefulThreads(request.num_threads, x.num_elements())};
  const auto x_stride = state.x.PixelStride();
  const auto out_stride = state.out.PixelStride();
  state.by_rows = x_stride.has_value() && out_stride.has_value();
  if (state.by_rows) {
    state.x_pixel_stride = *x_stride;
    state.out_pixel_stride = *out_stride;
  } else if (!HasDensePlanes(state.x) || !HasDensePlanes(state.out)) {
    return No{"operand and result lie in different orders"};
  }
  Prepared prepared;
  prepared.launch = state.by_rows ? LaunchRows : LaunchPlanes;
  prepared.inplace_operands = 1;
  prepared.state = std::make_shared<const ChannelsState>(state);
  return prepared;
}

}  // namespace

void RegisterBatchNorm(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  registry.Add("mica.fold_batch_norm", kFloat, KernelRank::kFast,
               {"cpu.fold_batch_norm", PrepareFold});
  registry.Add("mica.batch_norm_scale", kFloat, KernelRank::kFast,
               {"cpu.batch_norm_scale", PrepareScale});
  registry.Add("mica.scale_channels", kFloat, KernelRank::kFast,
               {"cpu.scale_channels", PrepareScaleChannels});
}

}  // namespace mica::cpu
