// Convolution of channels-last images as a product: a tile of pixels times a
// panel of columns stays in registers over all taps and channels.

#include "kernels/cpu/simd/convolution.h"

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/gemm.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Floats of weight that are fetched ahead of their use.
constexpr int64_t kAhead = 12 * kPanelCols;
// Pixels of a block see at most about this many floats of x, so that these
// stay in the second-level cache while panel after panel goes over them.
#if defined(__AVX512F__)
constexpr int64_t kBlockFloats = 128 * 1024;
#else
constexpr int64_t kBlockFloats = 64 * 1024;
#endif
// From so many terms on a panel is large enough to be fetched by the one
// before.
constexpr int64_t kFetchedTerms = 128;
// Terms that are summed one after the other, so that the error of a long sum
// is that of a short one.
constexpr int64_t kPieceTerms = 128;
// A block's table of addresses has at most this many.
constexpr int64_t kBlockAddresses = 4 * 1024;
// Pixels whose addresses differ by a multiple of this share a few cache sets
// and push each other out.
constexpr int64_t kPageFloats = 1024;
constexpr int64_t kLineFloats = 16;

MICA_INLINE int64_t Min64(int64_t a, int64_t b) { return a < b ? a : b; }
MICA_INLINE int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

MICA_INLINE void Prefetch(const float* p) {
  __builtin_prefetch(p, /*rw=*/0, /*locality=*/3);
}

// To the second-level cache.
MICA_INLINE void PrefetchFar(const float* p) {
  __builtin_prefetch(p, /*rw=*/0, /*locality=*/2);
}

MICA_INLINE void PrefetchForWrite(const float* p) {
  __builtin_prefetch(p, /*rw=*/1, /*locality=*/3);
}

// What a tile needs besides its place.
struct TileArgs {
  int64_t taps = 1, channels = 0;
  // Where the next tile's pixels begin, counted from this one's first, if
  // pixels lie without gaps; else 0.
  int64_t next_pixels = 0;
  // What it fetches of the next panel, term by term: so many floats on at each.
  const float* ahead = nullptr;
  int64_t ahead_step = 0;
  int64_t out_stride = 0, residual_stride = 0;
  Activation activation = Activation::kNone;
};

// kRows pixels. `pixels` holds, tap by tap, the address of each pixel's
// channels. With kMasked only the lanes of `mask` exist in the last vector.
// With kFetches the next panel is fetched.
template <int kRows, int kVectors, bool kMasked, bool kFetches>
void Tile(const TileArgs& g, const float* const* pixels, const float* weight,
          float* out, const float* bias, const float* residual, Vm mask) {
  Vf acc[kRows][kVectors];
  const auto clear = [&]() MICA_INLINE_LAMBDA {
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) acc[i][j] = Zero();
    }
  };
  // What is summed so far, in memory, if it is done piece by piece.
  alignas(64) float sums[kRows * kVectors * kLanes];
  bool has_sums = false;
  const auto spill = [&]() MICA_INLINE_LAMBDA {
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        float* sum = sums + (i * kVectors + j) * kLanes;
        if (has_sums) acc[i][j] = acc[i][j] + Load(sum);
        Store(sum, acc[i][j]);
      }
    }
    has_sums = true;
  };
  clear();
  // What is read and written at the end comes while the sums are made.
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    MICA_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      PrefetchForWrite(out + i * g.out_stride + j * kLanes);
      if (residual != nullptr) {
        Prefetch(residual + i * g.residual_stride + j * kLanes);
      }
    }
  }
  const float* next = pixels[0] + g.next_pixels;
  const int64_t next_step = g.next_pixels > 0 ? kLineFloats : 0;
  const float* ahead = g.ahead;
  const int64_t ahead_step = g.ahead_step;
  int64_t terms = 0;
  for (int64_t tap = 0; tap < g.taps; ++tap, pixels += kRows) {
    const float* p[kRows];
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) p[i] = pixels[i];
    for (int64_t k = 0; k < g.channels;) {
      if (terms >= kPieceTerms) {
        spill();
        clear();
        terms = 0;
      }
      const int64_t end = Min64(g.channels, k + kPieceTerms - terms);
      terms += end - k;
      for (; k < end; ++k) {
        Vf w[kVectors];
        MICA_UNROLL
        for (int j = 0; j < kVectors; ++j) w[j] = Load(weight + j * kLanes);
        MICA_UNROLL
        for (int i = 0; i < kRows; ++i) {
          const Vf x = Set(p[i][k]);
          MICA_UNROLL
          for (int j = 0; j < kVectors; ++j) {
            acc[i][j] = Fma(x, w[j], acc[i][j]);
          }
        }
        Prefetch(weight + kAhead);
        if (kVectors > 1) Prefetch(weight + kAhead + kLanes);
        Prefetch(next);
        next += next_step;
        if constexpr (kFetches) {
          PrefetchFar(ahead);
          ahead += ahead_step;
        }
        weight += kPanelCols;
      }
    }
  }
  if (has_sums) spill();
  auto load = [&](const float* from, int j) MICA_INLINE_LAMBDA {
    return kMasked && j == kVectors - 1 ? Load(from + j * kLanes, mask)
                                        : Load(from + j * kLanes);
  };
  if (bias != nullptr) {
    MICA_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const Vf b = load(bias, j);
      MICA_UNROLL
      for (int i = 0; i < kRows; ++i) acc[i][j] = acc[i][j] + b;
    }
  }
  if (residual != nullptr) {
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        acc[i][j] = acc[i][j] + load(residual + i * g.residual_stride, j);
      }
    }
  }
  if (g.activation == Activation::kRelu) {
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) acc[i][j] = Relu(acc[i][j]);
    }
  } else if (g.activation == Activation::kRelu6) {
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) acc[i][j] = Relu6(acc[i][j]);
    }
  }
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    float* row = out + i * g.out_stride;
    MICA_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      if (kMasked && j == kVectors - 1) {
        Store(row + j * kLanes, acc[i][j], mask);
      } else {
        Store(row + j * kLanes, acc[i][j]);
      }
    }
  }
}

using TileFn = void (*)(const TileArgs&, const float* const*, const float*,
                        float*, const float*, const float*, Vm);

// By the number of rows, for each width of a panel.
struct TileTable {
  TileFn two_fetching[kTileRows + 1] = {};
  TileFn two[kTileRows + 1] = {};
  TileFn two_masked[kTileRows + 1] = {};
  TileFn one_masked[kTileRows + 1] = {};
};

template <int kRows>
constexpr void FillTiles(TileTable& table) {
  table.two_fetching[kRows] = Tile<kRows, 2, false, true>;
  table.two[kRows] = Tile<kRows, 2, false, false>;
  table.two_masked[kRows] = Tile<kRows, 2, true, false>;
  table.one_masked[kRows] = Tile<kRows, 1, true, false>;
  if constexpr (kRows > 1) FillTiles<kRows - 1>(table);
}

constexpr TileTable MakeTiles() {
  TileTable table;
  FillTiles<kTileRows>(table);
  return table;
}

constexpr TileTable kTiles = MakeTiles();

int64_t Taps(const WindowArgs& w) { return w.kernel_rows * w.kernel_cols; }

// Pixels of the result that are done together; whole tiles.
int64_t BlockPixels(const WindowArgs& w) {
  // A step of two brings in four pixels of x, or those that the taps see.
  const int64_t floats = w.channels * Min64(w.row_step * w.col_step, Taps(w));
  int64_t pixels = kBlockFloats / (floats > 0 ? floats : 1);
  pixels = Min64(pixels, kBlockAddresses / Taps(w));
  return pixels > kTileRows ? pixels / kTileRows * kTileRows : kTileRows;
}

// True if a block's pixels are copied, because they would share cache sets.
bool IsCopied(const WindowArgs& w) {
  return Taps(w) == 1 && w.channels >= 256 &&
         w.x_col_stride * w.col_step % kPageFloats == 0;
}

// True if each pixel of x that is read lies right behind the one before.
bool IsGapless(const WindowArgs& w) {
  return Taps(w) == 1 && w.col_step == 1 && w.row_step == 1 &&
         w.out_cols == w.in_cols && w.out_rows == w.in_rows &&
         w.x_col_stride == w.channels &&
         w.x_row_stride == w.in_cols * w.x_col_stride &&
         w.x_image_stride == w.in_rows * w.x_row_stride;
}

int64_t CopyStride(const WindowArgs& w) { return w.channels + kLanes; }

int64_t AddressBytes(const WindowArgs& w) {
  const auto bytes = static_cast<int64_t>(sizeof(const float*));
  return CeilDiv(BlockPixels(w) * Taps(w) * bytes, 64) * 64;
}

// The place of a pixel of the result.
struct Place {
  int64_t image, row, col;
  // So many pixels on, which are no further than the row's end.
  void Skip(const WindowArgs& w, int64_t pixels) {
    col += pixels;
    if (col < w.out_cols) return;
    col = 0;
    if (++row < w.out_rows) return;
    row = 0;
    ++image;
  }
};

Place PlaceOf(const WindowArgs& w, int64_t pixel) {
  const int64_t row = pixel / w.out_cols;
  return {row / w.out_rows, row % w.out_rows, pixel % w.out_cols};
}

// Of a tap that n neighbours of a row see from column `col` of x's row on, or
// beside it: zeros there.
MICA_INLINE void FillRow(const WindowArgs& w, const float* row, int64_t col,
                         int64_t n, const float* zeros, const float** to) {
  int64_t begin = 0, end = n;
  if (col < 0) begin = Min64(CeilDiv(-col, w.col_step), n);
  if (col + (n - 1) * w.col_step >= w.in_cols) {
    end = col >= w.in_cols ? 0 : CeilDiv(w.in_cols - col, w.col_step);
    if (end < begin) end = begin;
  }
  const int64_t step = w.col_step * w.x_col_stride;
  const float* const first = row + col * w.x_col_stride;
  for (int64_t i = 0; i < begin; ++i) to[i] = zeros;
  for (int64_t i = begin; i < end; ++i) to[i] = first + i * step;
  for (int64_t i = end; i < n; ++i) to[i] = zeros;
}

// The addresses that the tile of `rows` pixels from `place` on sees.
void FillAddresses(const ConvolutionArgs& args, int64_t rows, Place& place,
                   const float** to) {
  const WindowArgs& w = args.window;
  for (int64_t done = 0; done < rows;) {
    const int64_t n = Min64(rows - done, w.out_cols - place.col);
    const float* image = w.x + place.image * w.x_image_stride;
    const int64_t top = place.row * w.row_step - w.row_padding;
    const int64_t left = place.col * w.col_step - w.col_padding;
    const float** at = to + done;
    for (int64_t a = 0; a < w.kernel_rows; ++a) {
      const int64_t row = top + a * w.row_dilation;
      const bool has_row = row >= 0 && row < w.in_rows;
      const float* const first = image + (has_row ? row * w.x_row_stride : 0);
      for (int64_t b = 0; b < w.kernel_cols; ++b, at += rows) {
        if (has_row) {
          FillRow(w, first, left + b * w.col_dilation, n, args.zeros, at);
        } else {
          for (int64_t i = 0; i < n; ++i) at[i] = args.zeros;
        }
      }
    }
    done += n;
    place.Skip(w, n);
  }
}

// Replaces the addresses by those of copies that lie closer.
void CopyPixels(const WindowArgs& w, int64_t count, const float** addresses,
                float* copies) {
  for (int64_t i = 0; i < count; ++i, copies += CopyStride(w)) {
    __builtin_memcpy(copies, addresses[i],
                     static_cast<size_t>(w.channels) * sizeof(float));
    addresses[i] = copies;
  }
}

// Pixels begin..end of the result, one block.
void Block(const ConvolutionArgs& args, int64_t begin, int64_t end) {
  const WindowArgs& w = args.window;
  TileArgs tile = {.taps = Taps(w),
                   .channels = w.channels,
                   .out_stride = w.out_pixel_stride,
                   .residual_stride = args.residual_pixel_stride,
                   .activation = args.activation};
  const bool late = args.activation != Activation::kNone &&
                    args.activation != Activation::kRelu &&
                    args.activation != Activation::kRelu6;
  // Tiles of equal height, rather than a thin last one.
  const int64_t count = end - begin;
  const int64_t tiles = CeilDiv(count, kTileRows);
  auto* addresses = static_cast<const float**>(args.scratch);
  Place place = PlaceOf(w, begin);
  int64_t done = 0;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t rows = (count + t) / tiles;
    FillAddresses(args, rows, place, addresses + done * tile.taps);
    done += rows;
  }
  const bool is_gapless = IsGapless(w) && !IsCopied(w);
  if (IsCopied(w)) {
    CopyPixels(w, count, addresses,
               reinterpret_cast<float*>(static_cast<char*>(args.scratch) +
                                        AddressBytes(w)));
  }
  const int64_t terms = tile.taps * w.channels;
  for (int64_t col = 0; col < args.columns; col += kPanelCols) {
    const int64_t cols = Min64(kPanelCols, args.columns - col);
    const bool fetches =
        terms >= kFetchedTerms && col + kPanelCols < args.columns;
    const TileFn* fns = fetches              ? kTiles.two_fetching
                        : cols == kPanelCols ? kTiles.two
                        : cols > kLanes      ? kTiles.two_masked
                                             : kTiles.one_masked;
    const Vm mask = FirstLanes(cols > kLanes ? cols - kLanes : cols);
    const float* weight = args.weight + col * tile.taps * w.channels;
    const float* bias = args.bias != nullptr ? args.bias + col : nullptr;
    done = 0;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t rows = (count + t) / tiles;
      const int64_t pixel = begin + done;
      if (is_gapless) tile.next_pixels = rows * w.channels;
      // The tiles share out the next panel, and fetch it: weights come from
      // memory at every run.
      if (fetches) {
        tile.ahead_step = CeilDiv(kPanelCols, tiles);
        tile.ahead = weight + (kPanelCols + t * tile.ahead_step) * terms;
      }
      float* out = w.out + pixel * w.out_pixel_stride + col;
      fns[rows](tile, addresses + done * tile.taps, weight, out, bias,
                args.residual != nullptr
                    ? args.residual + pixel * args.residual_pixel_stride + col
                    : nullptr,
                mask);
      if (late) {
        ActivateRows(args.activation, out, w.out_pixel_stride, rows, cols);
      }
      done += rows;
    }
  }
}

}  // namespace

int64_t ConvolutionScratchBytes(const WindowArgs& w) {
  const auto bytes = static_cast<int64_t>(sizeof(float));
  return AddressBytes(w) +
         (IsCopied(w) ? CeilDiv(BlockPixels(w) * CopyStride(w) * bytes, 64) * 64
                      : 0);
}

void Convolution(const ConvolutionArgs& args) {
  const int64_t step = BlockPixels(args.window);
  for (int64_t begin = args.window.begin; begin < args.window.end;
       begin += step) {
    Block(args, begin, Min64(begin + step, args.window.end));
  }
  ClearUpperHalves();
}

namespace {

// Row `k` of a panel: k counts channels, then taps, as the weight lies; the
// panel has taps first.
MICA_INLINE float* PanelRow(float* panel, int64_t k, int64_t channels,
                            int64_t taps) {
  return panel + (k % taps * channels + k / taps) * kPanelCols;
}

void PackStrip(const float* weight, int64_t rows, int64_t channels,
               int64_t taps, float* panel) {
  const int64_t depth = channels * taps;
  for (int64_t k = 0; k < depth; k += kLanes) {
    const int64_t count = Min64(kLanes, depth - k);
    const Vm mask = FirstLanes(count);
    Vf block[kLanes];
    for (int r = 0; r < kLanes; ++r) {
      block[r] = r < rows ? Load(weight + r * depth + k, mask) : Zero();
    }
    Transpose(block);
    for (int r = 0; r < count; ++r) {
      Store(PanelRow(panel, k + r, channels, taps), block[r]);
    }
  }
}

void PackConvolution(const float* weight, int64_t n, int64_t channels,
                     int64_t taps, float* dst) {
  const int64_t depth = channels * taps;
  for (int64_t col = 0; col < n; col += kPanelCols) {
    for (int half = 0; half < 2; ++half) {
      const int64_t first = col + half * kLanes;
      const int64_t rows = first < n ? Min64(kLanes, n - first) : 0;
      PackStrip(weight + (rows > 0 ? first * depth : 0), rows, channels, taps,
                dst + half * kLanes);
    }
    dst += kPanelCols * depth;
  }
}

// Taps come in reverse order: the last one is that of the first row.
void PackTurnedConvolution(const float* weight, int64_t channel_stride,
                           int64_t n, int64_t channels, int64_t taps,
                           float* dst) {
  for (int64_t col = 0; col < n; col += kPanelCols) {
    const int64_t cols = Min64(kPanelCols, n - col);
    for (int64_t c = 0; c < channels; ++c) {
      const float* from = weight + c * channel_stride + col * taps;
      for (int64_t tap = 0; tap < taps; ++tap) {
        float* row = dst + (tap * channels + c) * kPanelCols;
        const float* first = from + (taps - 1 - tap);
        for (int64_t j = 0; j < cols; ++j) row[j] = first[j * taps];
        for (int64_t j = cols; j < kPanelCols; ++j) row[j] = 0.0f;
      }
    }
    dst += kPanelCols * channels * taps;
  }
}

}  // namespace

void FillConvolution(SimdTable& table) {
  table.convolution = Convolution;
  table.convolution_scratch_bytes = ConvolutionScratchBytes;
  table.convolution_block = BlockPixels;
  table.pack_convolution = PackConvolution;
  table.pack_turned_convolution = PackTurnedConvolution;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
