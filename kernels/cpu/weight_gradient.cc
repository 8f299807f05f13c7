#include "kernels/cpu/weight_gradient.h"

#include <algorithm>

#include "kernels/cpu/convolution_call.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

using Param = ConvolutionBackwardParam;

bool IsPlain(const TensorType& type) {
  return type.dtype == DType::kF32 && type.rank() == 4 && type.is_row_major();
}

}  // namespace

std::optional<WeightGradient> WeightGradient::Make(
    const KernelRequest& request) {
  const TensorType& grad = request.operands[Param::kGrad].type;
  const TensorType& x = request.operands[Param::kInput].type;
  const TensorType& out = request.results[Param::kGradWeight].type;
  if (SimdV4() != nullptr || request.Bool(Param::kTransposed) ||
      request.Int(Param::kGroups) != 1 || !IsPlain(grad) || !IsPlain(x) ||
      !IsPlain(out)) {
    return std::nullopt;
  }
  WeightGradient made;
  made.images_ = x.dims[0];
  made.in_channels_ = x.dims[1];
  made.out_channels_ = out.dims[0];
  Axis* const axes[] = {&made.rows_, &made.cols_};
  for (int i = 0; i < 2; ++i) {
    *axes[i] = {.in = x.dims[2 + i],
                .out = grad.dims[2 + i],
                .taps = out.dims[2 + i],
                .step = Entry(request.Ints(Param::kStride), i),
                .padding = Entry(request.Ints(Param::kPadding), i),
                .dilation = Entry(request.Ints(Param::kDilation), i)};
  }
  // Measured: few channels leave panels and tiles empty, on few pixels sums are
  // moved about more than added to, and a single tap is packed for itself.
  constexpr int64_t kFewestPixels = 24, kFewestTaps = 4;
  const bool is_packed_once =
      made.taps() < kFewestTaps && made.rows_.step * made.cols_.step == 1;
  if (made.in_channels_ < Simd().gemm_cols ||
      made.out_channels_ < 2 * Simd().gemm_rows ||
      made.pixels() < kFewestPixels || is_packed_once) {
    return std::nullopt;
  }
  // So many that a panel stays in the first-level cache.
  constexpr int64_t kBlockPixels = 448;
  made.block_rows_ =
      std::clamp<int64_t>(kBlockPixels / made.cols_.out, 1, made.rows_.out);
  made.block_images_ =
      std::clamp<int64_t>(kBlockPixels / made.pixels(), 1, made.images_);
  made.AddPlanes();
  made.sums_floats_ =
      RoundUpFloats(made.out_channels_ * made.taps() * Simd().gemm_cols);
  made.copies_floats_ = RoundUpFloats(Simd().gemm_scratch_floats(
      made.block_images_ * made.pixels(), made.out_channels_,
      made.block_images_ * made.block_rows_ * made.cols_.out));
  if (made.block_images_ > 1) {
    made.joined_floats_ = RoundUpFloats(grad.num_elements());
  }
  made.num_threads_ = std::max(request.num_threads, 1);
  return made;
}

int64_t WeightGradient::PlaneFloats(const Plane& plane) const {
  return (block_images_ * block_rows_ + plane.more_rows) * cols_.out *
         Simd().gemm_cols;
}

void WeightGradient::AddPlanes() {
  for (int64_t tap = 0; tap < rows_.taps; ++tap) {
    const int64_t moved = tap * rows_.dilation;
    const int64_t row = block_images_ > 1 ? 0 : moved / rows_.step;
    const int64_t first = moved - row * rows_.step - rows_.padding;
    auto plane = std::find_if(
        planes_.begin(), planes_.end(),
        [first](const Plane& known) { return known.first == first; });
    if (plane == planes_.end()) {
      plane = planes_.insert(planes_.end(), {.first = first});
    }
    plane->more_rows = row;
    row_taps_.push_back(
        {.plane = static_cast<int>(plane - planes_.begin()), .row = row});
  }
  for (Plane& plane : planes_) {
    plane.offset = packed_floats_;
    packed_floats_ += cols_.taps * PlaneFloats(plane);
  }
}

int64_t WeightGradient::scratch_bytes() const {
  const int64_t each = packed_floats_ + sums_floats_ + copies_floats_;
  return (joined_floats_ + num_threads_ * each) *
         static_cast<int64_t>(sizeof(float));
}

// [n, o, pixel] as [block, o, image of the block, pixel].
void WeightGradient::JoinImages(const float* grad, float* joined) const {
  Parallel(num_threads_, images_, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t first = n / block_images_ * block_images_;
      float* to =
          joined + first * out_channels_ * pixels() + (n - first) * pixels();
      const float* from = grad + n * out_channels_ * pixels();
      const int64_t stride =
          std::min(block_images_, images_ - first) * pixels();
      for (int64_t o = 0; o < out_channels_; ++o) {
        std::copy_n(from + o * pixels(), pixels(), to + o * stride);
      }
    }
  });
}

// One row of pixels of the result, each with the channels of a panel that the
// tap's column finds in a row of x, which may lie outside.
void WeightGradient::PackRow(const float* x, int64_t channels, int64_t row,
                             int64_t col_tap, float* to) const {
  const int64_t width = Simd().gemm_cols;
  const int64_t moved = col_tap * cols_.dilation - cols_.padding;
  const auto is_in = [&](int64_t col) {
    const int64_t at = col * cols_.step + moved;
    return at >= 0 && at < cols_.in;
  };
  int64_t begin = 0, end = cols_.out;
  if (row < 0 || row >= rows_.in) end = 0;
  while (begin < end && !is_in(begin)) ++begin;
  while (end > begin && !is_in(end - 1)) --end;
  if (channels < width) {
    std::fill_n(to, cols_.out * width, 0.0f);
  } else {
    std::fill_n(to, begin * width, 0.0f);
    std::fill_n(to + end * width, (cols_.out - end) * width, 0.0f);
  }
  const int64_t plane = rows_.in * cols_.in;
  const float* from = x + row * cols_.in + begin * cols_.step + moved;
  if (begin == end) return;
  if (cols_.step == 1) {
    Simd().transpose32(from, plane, to + begin * width, width, channels,
                       end - begin);
    return;
  }
  for (int64_t col = begin; col < end; ++col, from += cols_.step) {
    for (int64_t c = 0; c < channels; ++c)
      to[col * width + c] = from[c * plane];
  }
}

void WeightGradient::PackBlock(const float* x, int64_t channels,
                               const Block& block, float* to) const {
  const int64_t row_floats = cols_.out * Simd().gemm_cols;
  const int64_t image_floats = in_channels_ * rows_.in * cols_.in;
  for (const Plane& plane : planes_) {
    float* begin = to + plane.offset;
    for (int64_t tap = 0; tap < cols_.taps; ++tap) {
      float* packed = begin;
      for (int64_t n = block.image; n < block.image + block.images; ++n) {
        for (int64_t i = 0; i < block.rows + plane.more_rows; ++i) {
          PackRow(x + n * image_floats, channels,
                  (block.row + i) * rows_.step + plane.first, tap, packed);
          packed += row_floats;
        }
      }
      begin += PlaneFloats(plane);
    }
  }
}

// Adds a packed block's products to sums[o, tap, a panel's channels], or begins
// them.
void WeightGradient::AddBlock(const float* grad, const float* packed,
                              const Block& block, float* sums,
                              float* copies) const {
  const int64_t width = Simd().gemm_cols, sums_stride = taps() * width;
  const bool is_first = block.image == 0 && block.row == 0;
  for (int64_t row_tap = 0; row_tap < rows_.taps; ++row_tap) {
    const Plane& plane = planes_[row_taps_[row_tap].plane];
    const int64_t skipped = row_taps_[row_tap].row * cols_.out * width;
    for (int64_t col_tap = 0; col_tap < cols_.taps; ++col_tap) {
      float* const c = sums + (row_tap * cols_.taps + col_tap) * width;
      Simd().gemm(
          {.a = grad + block.image * out_channels_ * pixels() +
                block.row * cols_.out,
           .a_row_stride = block.images * pixels(),
           .b = packed + plane.offset + col_tap * PlaneFloats(plane) + skipped,
           .b_row_stride = width,
           .c = c,
           .c_row_stride = sums_stride,
           .m = out_channels_,
           .n = width,
           .k = block.images * block.rows * cols_.out,
           .residual = is_first ? nullptr : c,
           .residual_row_stride = sums_stride,
           .scratch = copies_floats_ > 0 ? copies : nullptr});
    }
  }
}

void WeightGradient::RunPanel(const float* grad, const float* x, int64_t panel,
                              float* grad_weight, float* scratch) const {
  const int64_t width = Simd().gemm_cols, first = panel * width;
  const int64_t channels = std::min(width, in_channels_ - first);
  float* const sums = scratch;
  float* const packed = sums + sums_floats_;
  float* const copies = packed + packed_floats_;
  x += first * rows_.in * cols_.in;
  for (int64_t n = 0; n < images_; n += block_images_) {
    for (int64_t row = 0; row < rows_.out; row += block_rows_) {
      const Block block = {.image = n,
                           .images = std::min(block_images_, images_ - n),
                           .row = row,
                           .rows = std::min(block_rows_, rows_.out - row)};
      PackBlock(x, channels, block, packed);
      AddBlock(grad, packed, block, sums, copies);
    }
  }
  for (int64_t o = 0; o < out_channels_; ++o) {
    Simd().transpose32(sums + o * taps() * width, width,
                       grad_weight + (o * in_channels_ + first) * taps(),
                       taps(), taps(), channels);
  }
}

void WeightGradient::Run(const float* grad, const float* x, float* grad_weight,
                         float* scratch) const {
  const int64_t width = Simd().gemm_cols;
  const int64_t each = packed_floats_ + sums_floats_ + copies_floats_;
  if (block_images_ > 1) {
    JoinImages(grad, scratch);
    grad = scratch;
    scratch += joined_floats_;
  }
  ParallelPieces(num_threads_, (in_channels_ + width - 1) / width,
                 [&](int piece, int64_t begin, int64_t end) {
                   for (int64_t panel = begin; panel < end; ++panel) {
                     RunPanel(grad, x, panel, grad_weight,
                              scratch + piece * each);
                   }
                 });
}

}  // namespace mica::cpu
