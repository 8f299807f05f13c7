// Convolution of channels-last images with 3 by 3 taps by Winograd's method,
// F(2x2, 3x3): a patch of 2 by 2 pixels of the result takes 16 products of
// transformed pixels and transformed taps, where it took 36 before.
//
//   patch = A^T [ (G taps G^T) (B^T pixels B) ] A
//
// with the product in the middle taken point by point and summed over the
// channels, so that each of the 16 points is a matrix product by itself.
//
// A pixel of the result depends on the nine pixels that its window sees and on
// no others, as it should. But an infinity among these, or a sum that
// overflows, gives nan here where it needn't: patches that aren't finite are
// done again by the plain convolution.

#include <cstdint>

#include "kernels/cpu/simd/convolution.h"
#include "kernels/cpu/simd/gemm.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Points of a patch, and of a row of it.
constexpr int kSide = 4;
constexpr int kPoints = kSide * kSide;
// Transformed pixels of a block take about this many floats, so that they stay
// in the second-level cache while panel after panel goes over them.
constexpr int64_t kBlockFloats = 128 * 1024;
// Of a patch's products with one panel; the last line keeps patches from
// sharing cache sets.
constexpr int64_t kProductFloats = kPoints * kPanelCols + kLanes;
constexpr int64_t kLineFloats = 16;

MICA_INLINE int64_t Min64(int64_t a, int64_t b) { return a < b ? a : b; }
MICA_INLINE int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
MICA_INLINE int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// How the scratch memory is cut.
struct Layout {
  int64_t patches = 0;        // Of a block, at most.
  int64_t patch_stride = 0;   // Between patches of a point,
  int64_t point_stride = 0;   // between points; in floats.
  float* pixels = nullptr;    // Transformed: [point][patch][channel].
  float* products = nullptr;  // [patch][point][column of a panel].
  bool* redo = nullptr;       // Of each patch.
  void* direct = nullptr;     // The plain convolution's.
  int64_t bytes = 0;
};

int64_t PatchRows(const WindowArgs& w) { return CeilDiv(w.out_rows, 2); }
int64_t PatchCols(const WindowArgs& w) { return CeilDiv(w.out_cols, 2); }

// Between a point's patches. The last line keeps them from sharing cache sets.
int64_t PatchStride(int64_t channels) {
  return RoundUp(channels, kLineFloats) + kLineFloats;
}

// Blocks of about equal size: whole tiles, unless the last block would be
// thin, which reads all of the weights too.
int64_t BlockPatches(int64_t channels, int64_t patches) {
  const int64_t tiles =
      kBlockFloats / (kPoints * PatchStride(channels) * kTileRows);
  const int64_t blocks = CeilDiv(patches, (tiles > 2 ? tiles : 2) * kTileRows);
  const int64_t each = CeilDiv(patches, blocks);
  const int64_t whole = RoundUp(each, kTileRows);
  const int64_t last = patches % whole;
  return last > 0 && 2 * last < kTileRows ? each : whole;
}

Layout LayoutOf(const WindowArgs& w, int64_t block, void* scratch) {
  Layout layout;
  layout.patch_stride = PatchStride(w.channels);
  layout.patches = block;
  // An odd number of lines: points don't share cache sets.
  layout.point_stride = layout.patches * layout.patch_stride + kLineFloats;
  if (layout.point_stride / kLineFloats % 2 == 0) {
    layout.point_stride += kLineFloats;
  }
  auto* bytes = static_cast<char*>(scratch);
  const auto take = [&](int64_t count) {
    char* at = scratch != nullptr ? bytes + layout.bytes : nullptr;
    layout.bytes += RoundUp(count, 64);
    return at;
  };
  constexpr int64_t kBytes = sizeof(float);
  layout.pixels =
      reinterpret_cast<float*>(take(kPoints * layout.point_stride * kBytes));
  layout.products =
      reinterpret_cast<float*>(take(layout.patches * kProductFloats * kBytes));
  layout.redo = reinterpret_cast<bool*>(take(layout.patches));
  layout.direct = take(ConvolutionScratchBytes(w));
  return layout;
}

int64_t ScratchBytes(const WindowArgs& w, int64_t block) {
  return LayoutOf(w, block, nullptr).bytes;
}

// The place of a patch, counted on; in patches.
struct Place {
  int64_t image, row, col;
  void Next(const WindowArgs& w) {
    if (++col < PatchCols(w)) return;
    col = 0;
    if (++row < PatchRows(w)) return;
    row = 0;
    ++image;
  }
};

Place PlaceOf(const WindowArgs& w, int64_t patch) {
  const int64_t row = patch / PatchCols(w);
  return {row / PatchRows(w), row % PatchRows(w), patch % PatchCols(w)};
}

// The first pixel of the result in a patch.
MICA_INLINE int64_t PixelOf(const WindowArgs& w, const Place& place) {
  return (place.image * w.out_rows + 2 * place.row) * w.out_cols +
         2 * place.col;
}

// B^T d: of four numbers the points.
MICA_INLINE void ToPoints(Vf (&d)[kSide], Vf (&points)[kSide]) {
  points[0] = d[0] - d[2];
  points[1] = d[1] + d[2];
  points[2] = d[2] - d[1];
  points[3] = d[1] - d[3];
}

// A^T m: of four points the sums.
MICA_INLINE void FromPoints(const Vf (&m)[kSide], Vf& first, Vf& second) {
  first = m[0] + m[1] + m[2];
  second = m[1] - m[2] - m[3];
}

// Transforms a patch's pixels, each given by the address of its channels.
void TransformPixels(const float* const (&pixels)[kPoints], int64_t channels,
                     int64_t point_stride, float* to) {
  const auto step = [&](int64_t c, auto load) MICA_INLINE_LAMBDA {
    Vf half[kSide][kSide];  // [column][point]
    MICA_UNROLL
    for (int j = 0; j < kSide; ++j) {
      Vf column[kSide];
      MICA_UNROLL
      for (int i = 0; i < kSide; ++i) column[i] = load(pixels[i * kSide + j]);
      ToPoints(column, half[j]);
    }
    float* at = to + c;
    MICA_UNROLL
    for (int i = 0; i < kSide; ++i) {
      Vf row[kSide], points[kSide];
      MICA_UNROLL
      for (int j = 0; j < kSide; ++j) row[j] = half[j][i];
      ToPoints(row, points);
      MICA_UNROLL
      for (int j = 0; j < kSide; ++j, at += point_stride) Store(at, points[j]);
    }
  };
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    step(c, [c](const float* p) MICA_INLINE_LAMBDA { return Load(p + c); });
  }
  if (c < channels) {
    const Vm mask = FirstLanes(channels - c);
    step(c, [c, mask](const float* p)
                MICA_INLINE_LAMBDA { return Load(p + c, mask); });
  }
}

// The pixels of x that a patch sees.
void FillAddresses(const ConvolutionArgs& args, const Place& place,
                   const float* (&to)[kPoints]) {
  const WindowArgs& w = args.window;
  const float* image = w.x + place.image * w.x_image_stride;
  const int64_t top = 2 * place.row - w.row_padding;
  const int64_t left = 2 * place.col - w.col_padding;
  for (int64_t i = 0; i < kSide; ++i) {
    const int64_t row = top + i;
    const bool has_row = row >= 0 && row < w.in_rows;
    for (int64_t j = 0; j < kSide; ++j) {
      const int64_t col = left + j;
      to[i * kSide + j] =
          has_row && col >= 0 && col < w.in_cols
              ? image + row * w.x_row_stride + col * w.x_col_stride
              : args.zeros;
    }
  }
}

// What is the same for all patches of a block and a panel.
struct Panel {
  const ConvolutionArgs& conv;
  int64_t col = 0, cols = 0;
  Vm mask;  // Of the last vector.
};

// Writes a patch's pixels from its products, unless one of them isn't finite;
// returns false then.
template <int kVectors>
bool FinishPatch(const Panel& panel, const Place& place,
                 const float* products) {
  Vf y[2][2][kVectors];
  Vf finite = Zero();
  MICA_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    Vf half[2][kSide];
    MICA_UNROLL
    for (int j = 0; j < kSide; ++j) {
      Vf column[kSide];
      MICA_UNROLL
      for (int i = 0; i < kSide; ++i) {
        column[i] = Load(products + (i * kSide + j) * kPanelCols + v * kLanes);
      }
      FromPoints(column, half[0][j], half[1][j]);
    }
    MICA_UNROLL
    for (int i = 0; i < 2; ++i) {
      FromPoints(half[i], y[i][0][v], y[i][1][v]);
      MICA_UNROLL
      for (int j = 0; j < 2; ++j) finite = Fma(y[i][j][v], Zero(), finite);
    }
  }
  if (HasLanes(IsNan(finite))) return false;
  const ConvolutionArgs& conv = panel.conv;
  const WindowArgs& w = conv.window;
  const int64_t rows = Min64(2, w.out_rows - 2 * place.row);
  const int64_t cols = Min64(2, w.out_cols - 2 * place.col);
  const auto load = [&](const float* from, int v) MICA_INLINE_LAMBDA {
    return v == kVectors - 1 ? Load(from + v * kLanes, panel.mask)
                             : Load(from + v * kLanes);
  };
  MICA_UNROLL
  for (int i = 0; i < 2; ++i) {
    if (i >= rows) break;
    const int64_t first = PixelOf(w, place) + i * w.out_cols;
    MICA_UNROLL
    for (int j = 0; j < 2; ++j) {
      if (j >= cols) break;
      float* out = w.out + (first + j) * w.out_pixel_stride + panel.col;
      MICA_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        Vf value = y[i][j][v];
        if (conv.bias != nullptr)
          value = value + load(conv.bias + panel.col, v);
        if (conv.residual != nullptr) {
          value = value +
                  load(conv.residual +
                           (first + j) * conv.residual_pixel_stride + panel.col,
                       v);
        }
        if (conv.activation == Activation::kRelu) {
          value = Relu(value);
        } else if (conv.activation == Activation::kRelu6) {
          value = Relu6(value);
        }
        if (v == kVectors - 1) {
          Store(out + v * kLanes, value, panel.mask);
        } else {
          Store(out + v * kLanes, value);
        }
      }
    }
    if (conv.activation != Activation::kNone &&
        conv.activation != Activation::kRelu &&
        conv.activation != Activation::kRelu6) {
      ActivateRows(conv.activation,
                   w.out + first * w.out_pixel_stride + panel.col,
                   w.out_pixel_stride, cols, panel.cols);
    }
  }
  return true;
}

// The patches' pixels of a panel by plain convolution, in runs.
void Redo(const Panel& panel, const Layout& layout, Place place,
          int64_t patches) {
  ConvolutionArgs args = panel.conv;
  WindowArgs& w = args.window;
  args.weight += panel.col * w.kernel_rows * w.kernel_cols * w.channels;
  args.columns = panel.cols;
  if (args.bias != nullptr) args.bias += panel.col;
  if (args.residual != nullptr) args.residual += panel.col;
  w.out += panel.col;
  args.scratch = layout.direct;
  for (int64_t t = 0; t < patches; ++t, place.Next(w)) {
    if (!layout.redo[t]) continue;
    const Place first = place;
    for (;
         t + 1 < patches && layout.redo[t + 1] && place.col + 1 < PatchCols(w);
         ++t) {
      place.Next(w);
    }
    const int64_t cols = Min64(2 * (place.col + 1), w.out_cols) - 2 * first.col;
    const int64_t rows = Min64(2, w.out_rows - 2 * first.row);
    for (int64_t i = 0; i < rows; ++i) {
      w.begin = PixelOf(w, first) + i * w.out_cols;
      w.end = w.begin + cols;
      Convolution(args);
    }
  }
}

// Patches begin..end of the result, one block.
void Block(const WinogradArgs& args, const Layout& layout, int64_t begin,
           int64_t end) {
  const WindowArgs& w = args.conv.window;
  const Place first = PlaceOf(w, begin);
  const int64_t patches = end - begin;
  Place place = first;
  for (int64_t t = 0; t < patches; ++t, place.Next(w)) {
    const float* addresses[kPoints];
    FillAddresses(args.conv, place, addresses);
    TransformPixels(addresses, w.channels, layout.point_stride,
                    layout.pixels + t * layout.patch_stride);
  }
  const float* weight = args.weight;
  for (int64_t col = 0; col < args.conv.columns; col += kPanelCols) {
    const int64_t cols = Min64(kPanelCols, args.conv.columns - col);
    const bool is_wide = cols > kLanes;
    for (int point = 0; point < kPoints; ++point) {
      const bool is_last =
          col + kPanelCols >= args.conv.columns && point + 1 == kPoints;
      const float* next = weight + w.channels * kPanelCols;
      Gemm({.a = layout.pixels + point * layout.point_stride,
            .a_row_stride = layout.patch_stride,
            .b = weight,
            .b_row_stride = kPanelCols,
            .next_b = is_last ? args.weight : next,
            .c = layout.products + point * kPanelCols,
            .c_row_stride = kProductFloats,
            .m = patches,
            .n = is_wide ? kPanelCols : kLanes,
            .k = w.channels});
      weight = next;
    }
    const Panel panel = {.conv = args.conv,
                         .col = col,
                         .cols = cols,
                         .mask = FirstLanes(is_wide ? cols - kLanes : cols)};
    const auto finish = is_wide ? FinishPatch<2> : FinishPatch<1>;
    place = first;
    bool is_done = true;
    for (int64_t t = 0; t < patches; ++t, place.Next(w)) {
      layout.redo[t] =
          !finish(panel, place, layout.products + t * kProductFloats);
      is_done &= !layout.redo[t];
    }
    if (!is_done) Redo(panel, layout, first, patches);
  }
}

// G g: of three numbers the points, for each column of a panel; `stride` is
// from a point to the next. In double precision, so that only the result is
// rounded.
template <typename From, typename To>
MICA_INLINE void TapsToPoints(const From* g0, const From* g1, const From* g2,
                              To* points, int64_t stride) {
  for (int64_t j = 0; j < kPanelCols; ++j) {
    const double a = g0[j], b = g1[j], c = g2[j];
    points[j] = static_cast<To>(a);
    points[stride + j] = static_cast<To>((a + b + c) / 2);
    points[2 * stride + j] = static_cast<To>((a - b + c) / 2);
    points[3 * stride + j] = static_cast<To>(c);
  }
}

// G taps G^T of a channel of a panel. `tap` is from a tap to the next, `point`
// from a point.
void TransformTaps(const float* taps, int64_t tap, float* points,
                   int64_t point) {
  double half[3][kSide][kPanelCols];  // [column][point]
  for (int64_t j = 0; j < 3; ++j) {
    const float* column = taps + j * tap;
    TapsToPoints(column, column + 3 * tap, column + 6 * tap, half[j][0],
                 kPanelCols);
  }
  for (int64_t i = 0; i < kSide; ++i) {
    TapsToPoints(half[0][i], half[1][i], half[2][i], points + i * kSide * point,
                 point);
  }
}

void PackWinograd(const float* plain, int64_t n, int64_t channels, float* dst) {
  const int64_t stride = channels * kPanelCols;
  for (int64_t col = 0; col < n; col += kPanelCols) {
    for (int64_t c = 0; c < channels; ++c) {
      TransformTaps(plain + c * kPanelCols, stride, dst + c * kPanelCols,
                    stride);
    }
    plain += 9 * stride;
    dst += kPoints * stride;
  }
}

void Winograd(const WinogradArgs& args) {
  const Layout layout =
      LayoutOf(args.conv.window, args.block, args.conv.scratch);
  for (int64_t begin = args.begin; begin < args.end; begin += layout.patches) {
    Block(args, layout, begin, Min64(begin + layout.patches, args.end));
  }
}

}  // namespace

void FillWinograd(SimdTable& table) {
  table.winograd = Winograd;
  table.pack_winograd = PackWinograd;
  table.winograd_scratch_bytes = ScratchBytes;
  table.winograd_block = BlockPatches;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
