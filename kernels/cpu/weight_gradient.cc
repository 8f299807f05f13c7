#include "kernels/cpu/weight_gradient.h"

#include <algorithm>

#include "kernels/cpu/convolution_call.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

enum { kGrad, kInput, kStride = 4, kPadding, kDilation, kTransposed };
enum { kGroups = 9, kGradWeight = 1 };

int64_t RoundUp(int64_t floats) {
  constexpr int64_t kLine = 16;
  return (floats + kLine - 1) / kLine * kLine;
}

bool IsPlain(const TensorType& type) {
  return type.dtype == DType::kF32 && type.rank() == 4 && type.is_row_major();
}

}  // namespace

std::optional<WeightGradient> WeightGradient::Make(
    const KernelRequest& request) {
  const TensorType& grad = request.operands[kGrad].type;
  const TensorType& x = request.operands[kInput].type;
  const TensorType& out = request.results[kGradWeight].type;
  if (SimdV4() != nullptr || request.Bool(kTransposed) ||
      request.Int(kGroups) != 1 || !IsPlain(grad) || !IsPlain(x) ||
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
                .step = Entry(request.Ints(kStride), i),
                .padding = Entry(request.Ints(kPadding), i),
                .dilation = Entry(request.Ints(kDilation), i)};
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
  made.AddPlanes();
  made.sums_floats_ =
      RoundUp(made.out_channels_ * made.taps() * Simd().gemm_cols);
  made.copies_floats_ = RoundUp(Simd().gemm_scratch_floats(
      made.pixels(), made.out_channels_, made.block_rows_ * made.cols_.out));
  made.num_threads_ = std::max(request.num_threads, 1);
  return made;
}

int64_t WeightGradient::PlaneFloats(const Plane& plane) const {
  return (block_rows_ + plane.more_rows) * cols_.out * Simd().gemm_cols;
}

void WeightGradient::AddPlanes() {
  for (int64_t tap = 0; tap < rows_.taps; ++tap) {
    const int64_t phase = tap * rows_.dilation % rows_.step;
    auto plane = std::find_if(
        planes_.begin(), planes_.end(),
        [phase](const Plane& known) { return known.phase == phase; });
    if (plane == planes_.end()) {
      plane = planes_.insert(planes_.end(), {.phase = phase});
    }
    plane->more_rows = tap * rows_.dilation / rows_.step;
    plane_of_.push_back(static_cast<int>(plane - planes_.begin()));
  }
  for (Plane& plane : planes_) {
    plane.offset = packed_floats_;
    packed_floats_ += cols_.taps * PlaneFloats(plane);
  }
}

int64_t WeightGradient::scratch_bytes() const {
  return num_threads_ * (packed_floats_ + sums_floats_ + copies_floats_) *
         static_cast<int64_t>(sizeof(float));
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
                               int64_t first_row, int64_t rows,
                               float* to) const {
  const int64_t row_floats = cols_.out * Simd().gemm_cols;
  for (const Plane& plane : planes_) {
    float* begin = to + plane.offset;
    for (int64_t tap = 0; tap < cols_.taps; ++tap) {
      for (int64_t i = 0; i < rows + plane.more_rows; ++i) {
        const int64_t row =
            (first_row + i) * rows_.step + plane.phase - rows_.padding;
        PackRow(x, channels, row, tap, begin + i * row_floats);
      }
      begin += PlaneFloats(plane);
    }
  }
}

// Adds a packed block's products to sums[o, tap, a panel's channels], or begins
// them.
void WeightGradient::AddBlock(const float* grad, const float* packed,
                              int64_t rows, bool is_first, float* sums,
                              float* copies) const {
  const int64_t width = Simd().gemm_cols, sums_stride = taps() * width;
  for (int64_t row_tap = 0; row_tap < rows_.taps; ++row_tap) {
    const Plane& plane = planes_[plane_of_[row_tap]];
    const int64_t row = row_tap * rows_.dilation / rows_.step;
    for (int64_t col_tap = 0; col_tap < cols_.taps; ++col_tap) {
      float* const c = sums + (row_tap * cols_.taps + col_tap) * width;
      Simd().gemm({.a = grad,
                   .a_row_stride = pixels(),
                   .b = packed + plane.offset + col_tap * PlaneFloats(plane) +
                        row * cols_.out * width,
                   .b_row_stride = width,
                   .c = c,
                   .c_row_stride = sums_stride,
                   .m = out_channels_,
                   .n = width,
                   .k = rows * cols_.out,
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
  for (int64_t n = 0; n < images_; ++n) {
    const float* image = x + (n * in_channels_ + first) * rows_.in * cols_.in;
    for (int64_t row = 0; row < rows_.out; row += block_rows_) {
      const int64_t rows = std::min(block_rows_, rows_.out - row);
      PackBlock(image, channels, row, rows, packed);
      AddBlock(grad + n * out_channels_ * pixels() + row * cols_.out, packed,
               rows, n == 0 && row == 0, sums, copies);
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
  ParallelPieces(num_threads_, (in_channels_ + width - 1) / width,
                 [&](int piece, int64_t begin, int64_t end) {
                   for (int64_t panel = begin; panel < end; ++panel) {
                     RunPanel(grad, x, panel, grad_weight,
                              scratch + piece * each);
                   }
                 });
}

}  // namespace mica::cpu
