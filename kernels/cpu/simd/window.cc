// Windows over channels-last images, channel by channel: pooling; scaling by
// channel.

#include "kernels/cpu/simd/window.h"

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/gemm.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

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
  table.max_window = MaxWindow;
  table.sum_window = SumWindow;
  table.scale_rows = ScaleRows;
  table.scale_line = ScaleLine;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
