#include "kernels/cpu/winograd.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/convolution_call.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/product.h"

namespace mica::cpu {
namespace {

constexpr int64_t kBytes = sizeof(float);
constexpr int64_t kTaps = 9, kPoints = 16;

}  // namespace

int64_t WinogradConvolution::panels() const {
  return (columns() + Simd().gemm_cols - 1) / Simd().gemm_cols;
}

int64_t WinogradConvolution::transformed_floats() const {
  return kPoints * Simd().PackedFloats(columns(), channels());
}

int64_t WinogradConvolution::plain_floats() const {
  return Simd().PackedFloats(columns(), channels() * kTaps);
}

int64_t WinogradConvolution::packed_bytes() const {
  return (transformed_floats() + plain_floats()) * kBytes;
}

WinogradConvolution::Part WinogradConvolution::Reserve(int64_t floats) {
  const Part part = {scratch_floats_, RoundUpFloats(floats)};
  scratch_floats_ += part.floats;
  return part;
}

std::optional<std::string> WinogradConvolution::SetImages() {
  const Image& x = form_.x;
  const Image& out = form_.out;
  WindowArgs& w = args_.conv.window;
  staged_x_ = x;
  if (!x.HasChannelsLast()) {
    staged_x_ = PixelMajor(x.n, x.c, x.h, x.w);
    x_part_ = Reserve(x.elements());
  }
  w.x_image_stride = staged_x_.n_stride;
  w.x_row_stride = staged_x_.h_stride;
  w.x_col_stride = staged_x_.w_stride;
  w.in_rows = x.h;
  w.in_cols = x.w;
  w.out_rows = out.h;
  w.out_cols = out.w;
  w.kernel_rows = w.kernel_cols = 3;
  w.channels = x.c;
  w.row_padding = form_.row_padding;
  w.col_padding = form_.col_padding;
  std::optional<int64_t> stride = out.PixelStride();
  if (!stride.has_value()) {
    staged_out_ = PixelMajor(out.n, out.c, out.h, out.w);
    out_part_ = Reserve(out.elements());
  }
  w.out_pixel_stride = stride.value_or(out.c);
  patches_ = out.n * ((out.h + 1) / 2) * ((out.w + 1) / 2);
  if (!form_.residual.has_value()) return std::nullopt;
  stride = form_.residual->PixelStride();
  if (!stride.has_value()) return "the residual's channels aren't last";
  args_.conv.residual_pixel_stride = *stride;
  return std::nullopt;
}

// By an estimate of both times in products of a vector.
bool WinogradConvolution::Pays() const {
  constexpr double kLane = 16;
  // Of a vector's pixels or sums of a patch into points, or back.
  constexpr double kTransform = 48;
  // Of a float of weight that comes from memory, as all do once, and of one
  // that comes from a cache, as they do for each further block of patches.
  constexpr double kFetch = 1.5, kFetchAgain = 0.25;
  // Of a float of weight, to transform its taps.
  constexpr double kTapsToPoints = 8;
  const double vectors = std::ceil(columns() / kLane);
  const double weights = static_cast<double>(channels()) * vectors * kLane;
  const auto pixels = static_cast<double>(form_.out.pixels());
  const double plain =
      kTaps * (pixels * channels() * vectors + kFetch * weights);
  const auto patches = static_cast<double>(patches_);
  const double blocks = std::ceil(patches / args_.block);
  const double winograd =
      kPoints * (patches * channels() * vectors +
                 (kFetch + kFetchAgain * (blocks - 1)) * weights) +
      kTransform * patches * (channels() / kLane + vectors) +
      (form_.is_packed ? 0 : kTapsToPoints * weights);
  return winograd < 0.9 * plain;
}

std::optional<std::string> WinogradConvolution::Set(const Form& form) {
  form_ = form;
  if (form_.weight.rank() != 4 || form_.weight.dims[2] != 3 ||
      form_.weight.dims[3] != 3) {
    return "the taps aren't 3 by 3";
  }
  if (form_.out.elements() == 0 || form_.x.elements() == 0) return "is empty";
  if (auto no = SetImages()) return no;
  args_.conv.columns = columns();
  args_.conv.activation = form_.activation;
  args_.block = Simd().winograd_block(channels(), patches_);
  if (!Pays()) return "the plain convolution is faster";
  const double work = static_cast<double>(form_.out.elements()) *
                      static_cast<double>(channels() * kTaps);
  form_.num_threads = UsefulThreadsOfProduct(form_.num_threads, work);
  if (!form_.is_packed) {
    weight_part_ = Reserve(packed_bytes() / kBytes);
    if (!form_.weight.is_row_major()) {
      row_major_part_ = Reserve(form_.weight.num_elements());
    }
  }
  scratch_each_ = RoundUpFloats(
      Simd().winograd_scratch_bytes(args_.conv.window, args_.block) / kBytes);
  work_part_ = Reserve(scratch_each_ * form_.num_threads);
  zeros_.assign(channels(), 0.0f);
  return std::nullopt;
}

void WinogradConvolution::Pack(const float* weight, float* packed) const {
  std::vector<float> copy;
  PackRowMajor(RowMajor(form_.weight, weight, copy), packed);
}

std::string WinogradConvolution::packed_layout() const {
  return absl::StrCat("patches of ", form_.weight.ToString(),
                      form_.is_turned ? ", turned" : "");
}

void WinogradConvolution::PackRowMajor(const float* weight,
                                       float* packed) const {
  const int64_t panel = Simd().gemm_cols;
  float* plain = packed + transformed_floats();
  Parallel(form_.num_threads, panels(), [&](int64_t begin, int64_t end) {
    const int64_t col = begin * panel;
    const int64_t cols = std::min(end * panel, columns()) - col;
    float* to = plain + col * channels() * kTaps;
    if (form_.is_turned) {
      Simd().pack_turned_convolution(weight + col * kTaps, columns() * kTaps,
                                     cols, channels(), kTaps, to);
    } else {
      Simd().pack_convolution(weight + col * channels() * kTaps, cols,
                              channels(), kTaps, to);
    }
    Simd().pack_winograd(to, cols, channels(),
                         packed + col * channels() * kPoints);
  });
}

// Cut for the threads by patches, or by columns if those are few.
void WinogradConvolution::RunPatches(const WinogradArgs& whole,
                                     float* scratch) const {
  const int64_t panel = Simd().gemm_cols;
  const auto run = [&](WinogradArgs part, int i, int64_t begin, int64_t end) {
    part.begin = begin;
    part.end = end;
    part.conv.scratch = scratch + i * scratch_each_;
    Simd().winograd(part);
  };
  const int num_threads = form_.num_threads;
  if (num_threads == 1 || patches_ >= panels() * Simd().gemm_rows) {
    ParallelPieces(
        num_threads, patches_,
        [&](int i, int64_t begin, int64_t end) { run(whole, i, begin, end); });
    return;
  }
  ParallelPieces(num_threads, panels(), [&](int i, int64_t begin, int64_t end) {
    WinogradArgs part = whole;
    part.conv = Columns(whole.conv, begin * panel,
                        std::min(end * panel, columns()), channels() * kTaps);
    part.weight += begin * panel * channels() * kPoints;
    run(part, i, 0, patches_);
  });
}

void WinogradConvolution::Run(const Operands& operands, float* scratch) const {
  const float* x = operands.x;
  if (x_part_.floats > 0) {
    CopyImage(x, form_.x, scratch + x_part_.offset, staged_x_,
              form_.num_threads);
    x = scratch + x_part_.offset;
  }
  const float* weight = operands.weight;
  if (!form_.is_packed) {
    if (row_major_part_.floats > 0) {
      CopyRowMajor(form_.weight, weight, scratch + row_major_part_.offset);
      weight = scratch + row_major_part_.offset;
    }
    PackRowMajor(weight, scratch + weight_part_.offset);
    weight = scratch + weight_part_.offset;
  }
  WinogradArgs args = args_;
  args.weight = weight;
  args.conv.weight = weight + transformed_floats();
  args.conv.window.x = x;
  args.conv.window.out =
      stages_out() ? scratch + out_part_.offset : operands.out;
  args.conv.bias = operands.bias;
  args.conv.residual = operands.residual;
  args.conv.zeros = zeros_.data();
  RunPatches(args, scratch + work_part_.offset);
  if (stages_out()) {
    CopyImage(args.conv.window.out, staged_out_, operands.out, form_.out,
              form_.num_threads);
  }
}

}  // namespace mica::cpu
