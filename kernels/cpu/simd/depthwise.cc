// Depthwise convolution of channels-last images, and that of groups of a few
// channels, of which a vector holds several: a lane of the result takes its
// group's channels one by one from the same vector of x.

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/gemm.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"
#include "kernels/cpu/simd/window.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// One row of the result: the pixels whose windows are inside in their columns
// are inner_begin..inner_end.
struct Row {
  const float* x;  // Of the window's first tap in column 0 less padding.
  float* out;
  const float* residual;
  TapRange rows;
};

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

// Where the lanes of a vector find channel j of their group, for each j.
template <int kGroup>
struct Groups {
  Vi lanes[kGroup];

  Groups() {
    for (int j = 0; j < kGroup; ++j) {
      int32_t from[kLanes];
      for (int i = 0; i < kLanes; ++i) from[i] = i / kGroup * kGroup + j;
      lanes[j] = LoadLanes(from);
    }
  }
};

// kPixels pixels next to each other, kVectors vectors of channels.
template <int kGroup, int kPixels, int kVectors, bool kMasked>
MICA_INLINE void Depthwise(const ConvolutionArgs& args,
                           const Groups<kGroup>& groups, const Row& row,
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
        args.weight + a * w.kernel_cols * kGroup * args.columns + channel;
    for (int64_t b = cols.begin; b < cols.end; ++b) {
      const float* tap = x + b * w.col_dilation * w.x_col_stride;
      const float* tap_weight = weight + b * kGroup * args.columns;
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        if constexpr (kGroup == 1) {
          const Vf v = load(tap_weight, j);
          MICA_UNROLL
          for (int i = 0; i < kPixels; ++i) {
            acc[i][j] = Fma(load(tap + i * step, j), v, acc[i][j]);
          }
          continue;
        }
        Vf x_of[kPixels];
        MICA_UNROLL
        for (int i = 0; i < kPixels; ++i) x_of[i] = load(tap + i * step, j);
        MICA_UNROLL
        for (int k = 0; k < kGroup; ++k) {
          const Vf v = load(tap_weight + k * args.columns, j);
          MICA_UNROLL
          for (int i = 0; i < kPixels; ++i) {
            acc[i][j] = Fma(Permute(x_of[i], groups.lanes[k]), v, acc[i][j]);
          }
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
template <int kGroup, int kVectors, bool kMasked>
void BorderPixels(const ConvolutionArgs& args, const Groups<kGroup>& groups,
                  const Row& row, int64_t begin, int64_t end, int64_t channel,
                  Vm mask) {
  const WindowArgs& w = args.window;
  for (int64_t i = begin; i < end; ++i) {
    const TapRange cols = TapsInside(i * w.col_step - w.col_padding,
                                     w.col_dilation, w.kernel_cols, w.in_cols);
    Depthwise<kGroup, 1, kVectors, kMasked>(args, groups, row, i, cols, channel,
                                            mask);
  }
}

template <int kGroup, int kVectors, bool kMasked>
void InnerPixels(const ConvolutionArgs& args, const Groups<kGroup>& groups,
                 const Row& row, int64_t begin, int64_t end, int64_t channel,
                 Vm mask) {
  const TapRange cols = {0, args.window.kernel_cols};
  constexpr int kPixels = kLanes == 16 ? 6 : 4;
  int64_t i = begin;
  for (; i + kPixels <= end; i += kPixels) {
    FetchBelow<kVectors>(args.window, row, i, kPixels, channel);
    Depthwise<kGroup, kPixels, kVectors, kMasked>(args, groups, row, i, cols,
                                                  channel, mask);
  }
  for (; i + 2 <= end; i += 2) {
    Depthwise<kGroup, 2, kVectors, kMasked>(args, groups, row, i, cols, channel,
                                            mask);
  }
  if (i < end) {
    Depthwise<kGroup, 1, kVectors, kMasked>(args, groups, row, i, cols, channel,
                                            mask);
  }
}

// Pixels begin..end of one row of the result.
template <int kGroup>
void DepthwiseRow(const ConvolutionArgs& args, const Groups<kGroup>& groups,
                  const Row& row, int64_t begin, int64_t end) {
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
    BorderPixels<kGroup, 2, false>(args, groups, row, begin, inner_begin,
                                   channel, all);
    InnerPixels<kGroup, 2, false>(args, groups, row, inner_begin, inner_end,
                                  channel, all);
    BorderPixels<kGroup, 2, false>(args, groups, row, inner_end, end, channel,
                                   all);
  }
  for (; channel < args.columns; channel += kLanes) {
    const Vm mask = FirstLanes(Min64(kLanes, args.columns - channel));
    BorderPixels<kGroup, 1, true>(args, groups, row, begin, inner_begin,
                                  channel, mask);
    InnerPixels<kGroup, 1, true>(args, groups, row, inner_begin, inner_end,
                                 channel, mask);
    BorderPixels<kGroup, 1, true>(args, groups, row, inner_end, end, channel,
                                  mask);
  }
}

template <int kGroup>
void Convolve(const ConvolutionArgs& args) {
  const WindowArgs& w = args.window;
  const Groups<kGroup> groups;
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
    DepthwiseRow(args, groups, row, begin, end);
    if (IsLate(args.activation)) {
      ActivateRows(args.activation, row.out + begin * w.out_pixel_stride,
                   w.out_pixel_stride, end - begin, args.columns);
    }
    pixel += end - begin;
  }
  ClearUpperHalves();
}

void DepthwiseConvolution(const ConvolutionArgs& args) {
  switch (args.window.channels) {
    case 1:
      return Convolve<1>(args);
    case 2:
      return Convolve<2>(args);
    case 4:
      return Convolve<4>(args);
    default:
      if constexpr (kLanes >= 8) return Convolve<8>(args);
  }
}

}  // namespace

void FillDepthwise(SimdTable& table) {
  table.depthwise = DepthwiseConvolution;
  table.most_group_channels = kLanes < 8 ? kLanes : 8;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
