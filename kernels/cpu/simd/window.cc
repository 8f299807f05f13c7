// Windows over channels-last images, channel by channel: depthwise
// convolution and pooling; scaling by channel.

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/gemm.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

MICA_INLINE int64_t Min64(int64_t a, int64_t b) { return a < b ? a : b; }
MICA_INLINE int64_t Max64(int64_t a, int64_t b) { return a > b ? a : b; }
MICA_INLINE int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Taps begin..end of a window whose first tap is at `first` that lie in
// 0..size-1.
struct TapRange {
  int64_t begin, end;
};

MICA_INLINE TapRange TapsInside(int64_t first, int64_t dilation, int64_t taps,
                                int64_t size) {
  const int64_t begin = first < 0 ? CeilDiv(-first, dilation) : 0;
  const int64_t end = first >= size ? 0 : CeilDiv(size - first, dilation);
  return {Min64(begin, taps), Max64(Min64(end, taps), Min64(begin, taps))};
}

// One row of the result: the pixels whose windows are inside in their columns
// are inner_begin..inner_end.
struct Row {
  const float* x;  // Of the window's first tap in column 0 less padding.
  float* out;
  const float* residual;
  TapRange rows;
};

MICA_INLINE Vf Finish(Vf y, Activation activation) {
  if (activation == Activation::kRelu) return Relu(y);
  if (activation == Activation::kRelu6) return Relu6(y);
  return y;
}

bool IsLate(Activation activation) {
  return activation != Activation::kNone && activation != Activation::kRelu &&
         activation != Activation::kRelu6;
}

// Brings what the row of the result below sees and this one doesn't into the
// second-level cache, from channel `channel` on: kVectors vectors.
template <int kVectors>
MICA_INLINE void FetchBelow(const WindowArgs& w, const Row& row, int64_t pixel,
                            int64_t pixels, int64_t channel) {
  const int64_t reach = (w.kernel_rows - 1) * w.row_dilation + 1;
  const int64_t count = pixels * w.col_step;
  for (int64_t a = reach; a < reach + w.row_step; ++a) {
    const float* x = row.x + a * w.x_row_stride +
                     pixel * w.col_step * w.x_col_stride + channel;
    for (int64_t i = 0; i < count; ++i, x += w.x_col_stride) {
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        __builtin_prefetch(x + j * kLanes, /*rw=*/0, /*locality=*/2);
      }
    }
  }
}

// kPixels pixels next to each other, kVectors vectors of channels.
template <int kPixels, int kVectors, bool kMasked>
MICA_INLINE void Depthwise(const ConvolutionArgs& args, const Row& row,
                           int64_t pixel, TapRange cols, int64_t channel,
                           Vm mask) {
  const WindowArgs& w = args.window;
  auto load = [&](const float* from, int j) MICA_INLINE_LAMBDA {
    return kMasked && j == kVectors - 1 ? Load(from + j * kLanes, mask)
                                        : Load(from + j * kLanes);
  };
  Vf acc[kPixels][kVectors];
  MICA_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    const Vf start =
        args.bias != nullptr ? load(args.bias + channel, j) : Zero();
    MICA_UNROLL
    for (int i = 0; i < kPixels; ++i) acc[i][j] = start;
  }
  const int64_t step = w.col_step * w.x_col_stride;
  for (int64_t a = row.rows.begin; a < row.rows.end; ++a) {
    const float* x =
        row.x + a * w.row_dilation * w.x_row_stride + pixel * step + channel;
    const float* weight =
        args.weight + a * w.kernel_cols * args.columns + channel;
    for (int64_t b = cols.begin; b < cols.end; ++b) {
      const float* tap = x + b * w.col_dilation * w.x_col_stride;
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        const Vf v = load(weight + b * args.columns, j);
        MICA_UNROLL
        for (int i = 0; i < kPixels; ++i) {
          acc[i][j] = Fma(load(tap + i * step, j), v, acc[i][j]);
        }
      }
    }
  }
  MICA_UNROLL
  for (int i = 0; i < kPixels; ++i) {
    const int64_t at = pixel + i;
    float* out = row.out + at * w.out_pixel_stride + channel;
    MICA_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      Vf y = acc[i][j];
      if (row.residual != nullptr) {
        y = y +
            load(row.residual + at * args.residual_pixel_stride + channel, j);
      }
      y = Finish(y, args.activation);
      if (kMasked && j == kVectors - 1) {
        Store(out + j * kLanes, y, mask);
      } else {
        Store(out + j * kLanes, y);
      }
    }
  }
}

// Pixels at the border: each has its own taps.
template <int kVectors, bool kMasked>
void BorderPixels(const ConvolutionArgs& args, const Row& row, int64_t begin,
                  int64_t end, int64_t channel, Vm mask) {
  const WindowArgs& w = args.window;
  for (int64_t i = begin; i < end; ++i) {
    const TapRange cols = TapsInside(i * w.col_step - w.col_padding,
                                     w.col_dilation, w.kernel_cols, w.in_cols);
    Depthwise<1, kVectors, kMasked>(args, row, i, cols, channel, mask);
  }
}

template <int kVectors, bool kMasked>
void InnerPixels(const ConvolutionArgs& args, const Row& row, int64_t begin,
                 int64_t end, int64_t channel, Vm mask) {
  const TapRange cols = {0, args.window.kernel_cols};
  constexpr int kPixels = kLanes == 16 ? 6 : 4;
  int64_t i = begin;
  for (; i + kPixels <= end; i += kPixels) {
    FetchBelow<kVectors>(args.window, row, i, kPixels, channel);
    Depthwise<kPixels, kVectors, kMasked>(args, row, i, cols, channel, mask);
  }
  for (; i + 2 <= end; i += 2) {
    Depthwise<2, kVectors, kMasked>(args, row, i, cols, channel, mask);
  }
  if (i < end) {
    Depthwise<1, kVectors, kMasked>(args, row, i, cols, channel, mask);
  }
}

// Pixels begin..end of one row of the result.
void DepthwiseRow(const ConvolutionArgs& args, const Row& row, int64_t begin,
                  int64_t end) {
  const WindowArgs& w = args.window;
  const int64_t reach = (w.kernel_cols - 1) * w.col_dilation;
  const int64_t inner_begin =
      Min64(Max64(CeilDiv(w.col_padding, w.col_step), begin), end);
  const int64_t room = w.in_cols - 1 - reach + w.col_padding;
  const int64_t inner_end =
      Max64(Min64(room < 0 ? 0 : room / w.col_step + 1, end), inner_begin);
  int64_t channel = 0;
  for (; channel + 2 * kLanes <= args.columns; channel += 2 * kLanes) {
    const Vm all = FirstLanes(kLanes);
    BorderPixels<2, false>(args, row, begin, inner_begin, channel, all);
    InnerPixels<2, false>(args, row, inner_begin, inner_end, channel, all);
    BorderPixels<2, false>(args, row, inner_end, end, channel, all);
  }
  for (; channel < args.columns; channel += kLanes) {
    const Vm mask = FirstLanes(Min64(kLanes, args.columns - channel));
    BorderPixels<1, true>(args, row, begin, inner_begin, channel, mask);
    InnerPixels<1, true>(args, row, inner_begin, inner_end, channel, mask);
    BorderPixels<1, true>(args, row, inner_end, end, channel, mask);
  }
}

void DepthwiseConvolution(const ConvolutionArgs& args) {
  const WindowArgs& w = args.window;
  for (int64_t pixel = w.begin; pixel < w.end;) {
    const int64_t line = pixel / w.out_cols;
    const int64_t begin = pixel % w.out_cols;
    const int64_t end = Min64(w.out_cols, begin + w.end - pixel);
    const int64_t top = line % w.out_rows * w.row_step - w.row_padding;
    const int64_t first = line * w.out_cols;
    const Row row = {
        .x = w.x + line / w.out_rows * w.x_image_stride + top * w.x_row_stride -
             w.col_padding * w.x_col_stride,
        .out = w.out + first * w.out_pixel_stride,
        .residual = args.residual != nullptr
                        ? args.residual + first * args.residual_pixel_stride
                        : nullptr,
        .rows = TapsInside(top, w.row_dilation, w.kernel_rows, w.in_rows)};
    DepthwiseRow(args, row, begin, end);
    if (IsLate(args.activation)) {
      ActivateRows(args.activation, row.out + begin * w.out_pixel_stride,
                   w.out_pixel_stride, end - begin, args.columns);
    }
    pixel += end - begin;
  }
  ClearUpperHalves();
}

// Pooling.

struct MaxTap {
  // The larger one, a nan before all, and of equal ones the first: Max() gives
  // its second argument for these and where one is a nan.
  static MICA_INLINE Vf Join(Vf a, Vf b) {
    return Select(IsNan(b), b, Max(b, a));
  }
};

struct SumTap {
  static MICA_INLINE Vf Join(Vf a, Vf b) { return a + b; }
};

template <typename Tap, int kVectors, bool kMasked>
MICA_INLINE void PoolPixel(const WindowArgs& w, const float* x, TapRange rows,
                           TapRange cols, Vf start, Vf scale, bool has_scale,
                           float* out, Vm mask) {
  auto load = [&](const float* from, int j) MICA_INLINE_LAMBDA {
    return kMasked && j == kVectors - 1 ? Load(from + j * kLanes, mask)
                                        : Load(from + j * kLanes);
  };
  Vf acc[kVectors];
  MICA_UNROLL
  for (int j = 0; j < kVectors; ++j) acc[j] = start;
  for (int64_t a = rows.begin; a < rows.end; ++a) {
    for (int64_t b = cols.begin; b < cols.end; ++b) {
      const float* tap = x + a * w.row_dilation * w.x_row_stride +
                         b * w.col_dilation * w.x_col_stride;
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        acc[j] = Tap::Join(acc[j], load(tap, j));
      }
    }
  }
  MICA_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    const Vf y = has_scale ? acc[j] * scale : acc[j];
    if (kMasked && j == kVectors - 1) {
      Store(out + j * kLanes, y, mask);
    } else {
      Store(out + j * kLanes, y);
    }
  }
}

template <typename Tap>
MICA_INLINE void Pool(const WindowArgs& w, float start, float scale,
                      bool has_scale) {
  for (int64_t pixel = w.begin; pixel < w.end; ++pixel) {
    const int64_t line = pixel / w.out_cols;
    const int64_t top = line % w.out_rows * w.row_step - w.row_padding;
    const int64_t left = pixel % w.out_cols * w.col_step - w.col_padding;
    const TapRange rows =
        TapsInside(top, w.row_dilation, w.kernel_rows, w.in_rows);
    const TapRange cols =
        TapsInside(left, w.col_dilation, w.kernel_cols, w.in_cols);
    const float* x = w.x + line / w.out_rows * w.x_image_stride +
                     top * w.x_row_stride + left * w.x_col_stride;
    float* out = w.out + pixel * w.out_pixel_stride;
    int64_t channel = 0;
    for (; channel + 4 * kLanes <= w.channels; channel += 4 * kLanes) {
      PoolPixel<Tap, 4, false>(w, x + channel, rows, cols, Set(start),
                               Set(scale), has_scale, out + channel,
                               FirstLanes(kLanes));
    }
    for (; channel < w.channels; channel += kLanes) {
      PoolPixel<Tap, 1, true>(w, x + channel, rows, cols, Set(start),
                              Set(scale), has_scale, out + channel,
                              FirstLanes(Min64(kLanes, w.channels - channel)));
    }
  }
}

void MaxWindow(const WindowArgs& w) {
  Pool<MaxTap>(w, -__builtin_inff(), 1.0f, false);
}

void SumWindow(const WindowArgs& w, float scale) {
  Pool<SumTap>(w, 0.0f, scale, true);
}

// Scaling by channel.

void ScaleRows(const float* x, int64_t x_row_stride, const float* scale,
               const float* shift, Activation activation, float* out,
               int64_t out_row_stride, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = x + r * x_row_stride;
    float* to = out + r * out_row_stride;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      Store(to + i,
            Finish(Fma(Load(from + i), Load(scale + i), Load(shift + i)),
                   activation));
    }
    if (i < n) {
      const Vm m = FirstLanes(n - i);
      Store(
          to + i,
          Finish(Fma(Load(from + i, m), Load(scale + i, m), Load(shift + i, m)),
                 activation),
          m);
    }
    if (IsLate(activation)) ActivateRows(activation, to, 0, 1, n);
  }
}

void ScaleLine(const float* x, float scale, float shift, Activation activation,
               float* out, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Store(out + i,
          Finish(Fma(Load(x + i), Set(scale), Set(shift)), activation));
  }
  if (i < n) {
    const Vm m = FirstLanes(n - i);
    Store(out + i,
          Finish(Fma(Load(x + i, m), Set(scale), Set(shift)), activation), m);
  }
  if (IsLate(activation)) ActivateRows(activation, out, 0, 1, n);
}

}  // namespace

void FillWindow(SimdTable& table) {
  table.depthwise = DepthwiseConvolution;
  table.max_window = MaxWindow;
  table.sum_window = SumWindow;
  table.scale_rows = ScaleRows;
  table.scale_line = ScaleLine;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
