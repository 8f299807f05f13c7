// Channels of images, each times a number of its own and plus another: batch
// norm out of training. In float32, and in 16 bits piece by piece, so that what
// is widened stays in the first-level cache.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "framework/tensor/tensor.h"
#include "kernels/cpu/activation_name.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/image.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/widened.h"

namespace mica::cpu {
namespace {

constexpr int64_t kPiece = 2048;  // Elements.
constexpr int64_t kManyChannels = 64;

struct ChannelsState {
  Image x, out;
  int64_t x_pixel_stride = 0, out_pixel_stride = 0;  // Of rows of channels.
  Activation activation = Activation::kNone;
  int64_t bytes = 0;                            // Of an element.
  ConvertFn widen = nullptr, narrow = nullptr;  // Of 16 bits.
  int num_threads = 1;
};

// What lies `offset` elements from the start.
const char* From(const ChannelsState& s, void* const* args, int64_t offset) {
  return static_cast<const char*>(args[0]) + offset * s.bytes;
}

char* To(const ChannelsState& s, void* const* args, int64_t offset) {
  return static_cast<char*>(args[3]) + offset * s.bytes;
}

// A plane.

void ScaleLine(const ChannelsState& s, const char* x, float scale, float shift,
               char* out, int64_t n) {
  if (s.widen == nullptr) {
    Simd().scale_line(reinterpret_cast<const float*>(x), scale, shift,
                      s.activation, reinterpret_cast<float*>(out), n);
    return;
  }
  alignas(kBufferAlignment) float wide[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t count = std::min(kPiece, n - i);
    s.widen(x + i * s.bytes, wide, count);
    Simd().scale_line(wide, scale, shift, s.activation, wide, count);
    s.narrow(wide, out + i * s.bytes, count);
  }
}

bool LaunchPlanes(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ChannelsState*>(state);
  const auto* scale = static_cast<const float*>(args[1]);
  const auto* shift = static_cast<const float*>(args[2]);
  Parallel(s.num_threads, s.x.n * s.x.c, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / s.x.c, c = i % s.x.c;
      ScaleLine(s, From(s, args, n * s.x.n_stride + c * s.x.c_stride), scale[c],
                shift[c], To(s, args, n * s.out.n_stride + c * s.out.c_stride),
                s.x.h * s.x.w);
    }
  });
  return true;
}

// Rows of channels.

// `count` channels of some pixels, which a piece has room for.
void ScalePiece(const ChannelsState& s, const char* x, const float* scale,
                const float* shift, char* out, int64_t pixels, int64_t count) {
  alignas(kBufferAlignment) float wide[kPiece];
  // Pixels without gaps are one run.
  const bool is_x_dense = s.x_pixel_stride == count;
  const bool is_out_dense = s.out_pixel_stride == count;
  const int64_t x_run = is_x_dense ? pixels * count : count;
  const int64_t out_run = is_out_dense ? pixels * count : count;
  for (int64_t i = 0; i < (is_x_dense ? 1 : pixels); ++i) {
    s.widen(x + i * s.x_pixel_stride * s.bytes, wide + i * count, x_run);
  }
  Simd().scale_rows(wide, count, scale, shift, s.activation, wide, count,
                    pixels, count);
  for (int64_t i = 0; i < (is_out_dense ? 1 : pixels); ++i) {
    s.narrow(wide + i * count, out + i * s.out_pixel_stride * s.bytes, out_run);
  }
}

void ScaleWidened(const ChannelsState& s, const char* x, const float* scale,
                  const float* shift, char* out, int64_t pixels) {
  for (int64_t c = 0; c < s.x.c; c += kPiece) {
    const int64_t count = std::min(kPiece, s.x.c - c);
    const int64_t most = kPiece / count;
    for (int64_t i = 0; i < pixels; i += most) {
      ScalePiece(s, x + (i * s.x_pixel_stride + c) * s.bytes, scale + c,
                 shift + c, out + (i * s.out_pixel_stride + c) * s.bytes,
                 std::min(most, pixels - i), count);
    }
  }
}

// Pixels begin..end.
void ScaleRows(const ChannelsState& s, void* const* args, const float* scale,
               const float* shift, int64_t begin, int64_t end) {
  const char* x = From(s, args, begin * s.x_pixel_stride);
  char* out = To(s, args, begin * s.out_pixel_stride);
  if (s.widen != nullptr) {
    return ScaleWidened(s, x, scale, shift, out, end - begin);
  }
  Simd().scale_rows(reinterpret_cast<const float*>(x), s.x_pixel_stride, scale,
                    shift, s.activation, reinterpret_cast<float*>(out),
                    s.out_pixel_stride, end - begin, s.x.c);
}

// Few channels without gaps: several pixels are as one of more channels.
void ScaleFewChannels(const ChannelsState& s, void* const* args,
                      const float* scale, const float* shift, int64_t by) {
  const int64_t c = s.x.c, pixels = s.x.pixels(), joined = pixels / by;
  float scales[kManyChannels], shifts[kManyChannels];
  for (int64_t i = 0; i < by; ++i) {
    std::copy_n(scale, c, scales + i * c);
    std::copy_n(shift, c, shifts + i * c);
  }
  ChannelsState many = s;
  many.x.c = many.x_pixel_stride = many.out_pixel_stride = by * c;
  Parallel(s.num_threads, joined, [&](int64_t begin, int64_t end) {
    ScaleRows(many, args, scales, shifts, begin, end);
  });
  ScaleRows(s, args, scale, shift, joined * by, pixels);
}

bool LaunchRows(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ChannelsState*>(state);
  const auto* scale = static_cast<const float*>(args[1]);
  const auto* shift = static_cast<const float*>(args[2]);
  const int64_t c = s.x.c;
  const bool has_gaps = s.x_pixel_stride != c || s.out_pixel_stride != c;
  if (!has_gaps && c <= kManyChannels / 2) {
    ScaleFewChannels(s, args, scale, shift, kManyChannels / c);
    return true;
  }
  Parallel(s.num_threads, s.x.pixels(), [&](int64_t begin, int64_t end) {
    ScaleRows(s, args, scale, shift, begin, end);
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
  const TensorType& out = request.results[0].type;
  if (x.rank() > 4 || x.num_elements() == 0) return No{"no image"};
  if (x.dtype != out.dtype) return No{"another type"};
  for (int i = 1; i < 3; ++i) {
    const TensorType& numbers = request.operands[i].type;
    if (!numbers.is_row_major()) return No{"has gaps"};
    if (numbers.dtype != DType::kF32) return No{"numbers aren't f32"};
  }
  const auto activation = ActivationNamed(request.String(3));
  if (!activation.has_value()) return No{"an unknown activation"};
  ChannelsState state = {
      .x = ImageOf(AtLeastRank3(x)),
      .out = ImageOf(AtLeastRank3(out)),
      .activation = *activation,
      .bytes = ElementBytes(x.dtype),
      .num_threads = UsefulThreads(request.num_threads, x.num_elements())};
  if (const auto half = HalfOf(x.dtype); half.has_value()) {
    state.widen = Simd().widen[static_cast<int>(*half)];
    state.narrow = Simd().narrow[static_cast<int>(*half)];
  }
  const auto x_stride = state.x.PixelStride();
  const auto out_stride = state.out.PixelStride();
  const bool by_rows = x_stride.has_value() && out_stride.has_value();
  if (by_rows) {
    state.x_pixel_stride = *x_stride;
    state.out_pixel_stride = *out_stride;
  } else if (!HasDensePlanes(state.x) || !HasDensePlanes(state.out)) {
    return No{"operand and result lie in different orders"};
  }
  Prepared prepared;
  prepared.launch = by_rows ? LaunchRows : LaunchPlanes;
  prepared.never_fails = true;
  prepared.inplace_operands = 1;
  prepared.state = std::make_shared<const ChannelsState>(state);
  return prepared;
}

}  // namespace

void RegisterScaleChannels(KernelRegistry& registry) {
  constexpr DType kFloats[] = {DType::kF32, DType::kBF16, DType::kF16};
  registry.Add("mica.scale_channels", kFloats, KernelRank::kFast,
               {"cpu.scale_channels", PrepareScaleChannels});
}

}  // namespace mica::cpu
