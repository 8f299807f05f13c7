#include "kernels/cpu/simd/gemm.h"

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Rows of b that are fetched ahead of their use.
constexpr int64_t kAhead = 12;
constexpr int64_t kLineFloats = 16;

// Terms that are summed in a register before the sum joins those before it:
// the rounding error of a long sum grows with the length of its parts.
constexpr int64_t kPartTerms = 192;
// From so many on it pays that sums go through memory once more.
constexpr int64_t kPackedTerms = 128;

// Hints only: any address is legal. To the first-level cache, and to the
// second.
MICA_INLINE void Prefetch(const float* p) {
  __builtin_prefetch(p, /*rw=*/0, /*locality=*/3);
}
MICA_INLINE void PrefetchFar(const float* p) {
  __builtin_prefetch(p, /*rw=*/0, /*locality=*/2);
}

// What a packed tile fetches for those that come after it: in every four terms
// a line or two, and `step` floats on.
struct Ahead {
  const float* from;
  int64_t step;
};

// A block of c, and what it is made from; bias and residual may be null.
struct TileArgs {
  const float* a;
  const float* b;
  float* c;
  const float* bias;
  const float* residual;
  Vm mask;  // Of the last vector of a row.
  Ahead ahead;
};

// c = act(alpha sums + bias) + residual.
template <int kRows, int kVectors, bool kMasked>
MICA_INLINE void StoreTile(const GemmArgs& g, const TileArgs& tile,
                           Vf (&sums)[kRows][kVectors]) {
  if (g.alpha != 1.0f) {
    const Vf alpha = Set(g.alpha);
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = sums[i][j] * alpha;
    }
  }
  if (const float* bias = tile.bias; bias != nullptr) {
    MICA_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const bool masked = kMasked && j == kVectors - 1;
      const Vf v =
          masked ? Load(bias + j * kLanes, tile.mask) : Load(bias + j * kLanes);
      MICA_UNROLL
      for (int i = 0; i < kRows; ++i) sums[i][j] = sums[i][j] + v;
    }
  }
  if (g.activation == Activation::kRelu) {
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = Relu(sums[i][j]);
    }
  }
  if (tile.residual != nullptr) {
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const float* row = tile.residual + i * g.residual_row_stride;
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        const bool masked = kMasked && j == kVectors - 1;
        sums[i][j] = sums[i][j] + (masked ? Load(row + j * kLanes, tile.mask)
                                          : Load(row + j * kLanes));
      }
    }
  }
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    float* row = tile.c + i * g.c_row_stride;
    MICA_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      if (kMasked && j == kVectors - 1) {
        Store(row + j * kLanes, sums[i][j], tile.mask);
      } else {
        Store(row + j * kLanes, sums[i][j]);
      }
    }
  }
}

// c[kRows][up to kVectors vectors] from a's rows and one column block of b.
// kVectors above 2 spans several panels. With kMasked, only the lanes of
// `mask` exist in the last vector.
template <int kRows, int kVectors, bool kMasked>
void Tile(const GemmArgs& g, const TileArgs& tile) {
  const float *a = tile.a, *b = tile.b;
  float* c = tile.c;
  const Vm mask = tile.mask;
  Vf acc[kRows][kVectors];
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    MICA_UNROLL
    for (int j = 0; j < kVectors; ++j) acc[i][j] = Zero();
  }
  // A base for every three rows: then all addresses are base + stride * 0, 1,
  // 2, and the pointers fit the general registers.
  constexpr int kBases = (kRows + 2) / 3;
  const int64_t lda = g.a_row_stride;
  const float* bases[kBases];
  MICA_UNROLL
  for (int i = 0; i < kBases; ++i) bases[i] = a + 3 * i * lda;
  // The result's lines are on their way while the sums run.
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    Prefetch(c + i * g.c_row_stride);
    if (kVectors > 1) Prefetch(c + i * g.c_row_stride + kLanes);
  }
  const int64_t b_step = g.b_row_stride;
  const int64_t panel = g.b_panel_stride;
  auto step = [&](int64_t k) MICA_INLINE_LAMBDA {
    Vf bv[kVectors];
    MICA_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const float* p = b + (j / 2) * panel + (j % 2) * kLanes;
      bv[j] = kMasked && j == kVectors - 1 ? Load(p, mask) : Load(p);
    }
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Vf av = Set(bases[i / 3][i % 3 * lda + k]);
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) AddProduct(av, bv[j], acc[i][j]);
    }
    Prefetch(b + kAhead * b_step);
    Prefetch(b + kAhead * b_step + kLanes);
    b += b_step;
  };
  // Sums of the parts before the one in the registers.
  float sums[kRows * kVectors * kLanes];
  int64_t k = 0;
  for (int64_t begin = 0; g.k - begin > kPartTerms; begin = k) {
    for (; k < begin + kPartTerms; k += 4) {
      step(0);
      step(1);
      step(2);
      step(3);
      MICA_UNROLL
      for (int i = 0; i < kBases; ++i) bases[i] += 4;
    }
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        float* sum = sums + (i * kVectors + j) * kLanes;
        Store(sum, begin == 0 ? acc[i][j] : Load(sum) + acc[i][j]);
        acc[i][j] = Zero();
      }
    }
  }
  const bool has_sums = k > 0;
  for (; k + 4 <= g.k; k += 4) {
    step(0);
    step(1);
    step(2);
    step(3);
    MICA_UNROLL
    for (int i = 0; i < kBases; ++i) bases[i] += 4;
  }
  for (; k < g.k; ++k) {
    step(0);
    MICA_UNROLL
    for (int i = 0; i < kBases; ++i) bases[i] += 1;
  }
  if (has_sums) {
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MICA_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        acc[i][j] = acc[i][j] + Load(sums + (i * kVectors + j) * kLanes);
      }
    }
  }
  StoreTile<kRows, kVectors, kMasked>(g, tile, acc);
}

// Sums up to kPartTerms terms of a whole, packed panel, and adds them to `sums`
// if there are some. A function by itself, with little else to keep in
// registers: next to more code GCC spills the sums in every round.
template <int kRows>
__attribute__((noinline)) void AddTerms(const TileArgs& tile, int64_t lda,
                                        int64_t k, bool has_sums, float* sums) {
  Vf acc[kRows][2];
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) acc[i][0] = acc[i][1] = Zero();
  constexpr int kBases = (kRows + 2) / 3;
  const float* bases[kBases];
  MICA_UNROLL
  for (int i = 0; i < kBases; ++i) bases[i] = tile.a + 3 * i * lda;
  const float *b = tile.b, *ahead = tile.ahead.from;
  const int64_t other = tile.ahead.step > kLineFloats ? kLineFloats : 0;
  auto step = [&](int64_t at) MICA_INLINE_LAMBDA {
    const float* row = b + at * kPanelCols;
    const Vf first = Load(row), second = Load(row + kLanes);
    Prefetch(row + kAhead * kPanelCols);
    Prefetch(row + kAhead * kPanelCols + kLanes);
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Vf av = Set(bases[i / 3][i % 3 * lda + at]);
      AddProduct(av, first, acc[i][0]);
      AddProduct(av, second, acc[i][1]);
    }
  };
  for (; k >= 4; k -= 4) {
    PrefetchFar(ahead);
    PrefetchFar(ahead + other);
    ahead += tile.ahead.step;
    step(0);
    step(1);
    step(2);
    step(3);
    b += 4 * kPanelCols;
    MICA_UNROLL
    for (int i = 0; i < kBases; ++i) bases[i] += 4;
  }
  for (; k > 0; --k) {
    step(0);
    b += kPanelCols;
    MICA_UNROLL
    for (int i = 0; i < kBases; ++i) bases[i] += 1;
  }
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    MICA_UNROLL
    for (int j = 0; j < 2; ++j) {
      float* sum = sums + (i * 2 + j) * kLanes;
      Store(sum, has_sums ? Load(sum) + acc[i][j] : acc[i][j]);
    }
  }
}

// As Tile, of a whole panel whose rows lie one after another.
template <int kRows>
void PackedTile(const GemmArgs& g, const TileArgs& tile) {
  float sums[kRows * 2 * kLanes];
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    Prefetch(tile.c + i * g.c_row_stride);
    Prefetch(tile.c + i * g.c_row_stride + kLanes);
  }
  TileArgs part = tile;
  for (int64_t k = 0; k < g.k; k += kPartTerms) {
    const int64_t terms = g.k - k < kPartTerms ? g.k - k : kPartTerms;
    AddTerms<kRows>(part, g.a_row_stride, terms, k > 0, sums);
    part.a += terms;
    part.b += terms * kPanelCols;
    part.ahead.from += terms / 4 * part.ahead.step;
  }
  Vf acc[kRows][2];
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    acc[i][0] = Load(sums + 2 * i * kLanes);
    acc[i][1] = Load(sums + (2 * i + 1) * kLanes);
  }
  StoreTile<kRows, 2, false>(g, tile, acc);
}

using TileFn = void (*)(const GemmArgs&, const TileArgs&);

// By the number of rows, for each kind of column block.
struct TileTable {
  TileFn packed[kTileRows + 1] = {};
  TileFn two[kTileRows + 1] = {};
  TileFn two_masked[kTileRows + 1] = {};
  TileFn one_masked[kTileRows + 1] = {};
  // Four vectors, for the few rows that would not fill the pipes with two.
  TileFn four[kTileRows + 1] = {};
};

template <int kRows>
constexpr void FillTiles(TileTable& table) {
  table.packed[kRows] = PackedTile<kRows>;
  table.two[kRows] = Tile<kRows, 2, false>;
  table.two_masked[kRows] = Tile<kRows, 2, true>;
  table.one_masked[kRows] = Tile<kRows, 1, true>;
  if constexpr (kRows * 2 <= kTileRows) {
    table.four[kRows] = Tile<kRows, 4, false>;
  }
  if constexpr (kRows > 1) FillTiles<kRows - 1>(table);
}

constexpr TileTable MakeTiles() {
  TileTable table;
  FillTiles<kTileRows>(table);
  return table;
}

constexpr TileTable kTiles = MakeTiles();

// One block of rows against all columns from `col` to `end`, at most four
// vectors of them.
MICA_INLINE void OneTile(const GemmArgs& g, int64_t row, int rows, int64_t col,
                         int64_t cols, bool is_packed, const Ahead& ahead) {
  // A slow activation needs the registers: it follows on the stored tile, and
  // the residual after it.
  const bool late =
      g.activation != Activation::kNone && g.activation != Activation::kRelu;
  const float* residual = g.residual != nullptr
                              ? g.residual + row * g.residual_row_stride + col
                              : nullptr;
  TileArgs tile = {.a = g.a + row * g.a_row_stride,
                   .b = g.b + col / kPanelCols * g.b_panel_stride,
                   .c = g.c + row * g.c_row_stride + col,
                   .bias = g.bias != nullptr ? g.bias + col : nullptr,
                   .residual = late ? nullptr : residual,
                   .mask = FirstLanes(kLanes),
                   .ahead = ahead};
  if (cols == 2 * kPanelCols) {
    kTiles.four[rows](g, tile);
  } else if (cols == kPanelCols) {
    (is_packed ? kTiles.packed : kTiles.two)[rows](g, tile);
  } else if (cols > kLanes) {
    tile.mask = FirstLanes(cols - kLanes);
    kTiles.two_masked[rows](g, tile);
  } else {
    tile.mask = FirstLanes(cols);
    kTiles.one_masked[rows](g, tile);
  }
  if (!late) return;
  FinishRows({.c = tile.c,
              .c_row_stride = g.c_row_stride,
              .rows = rows,
              .n = cols,
              .activation = g.activation,
              .residual = residual,
              .residual_row_stride = g.residual_row_stride});
}

// Rows of a that stay in the second-level cache while all of b passes.
#if defined(__AVX512F__)
constexpr int64_t kBlockFloats = 128 * 1024;
#else
constexpr int64_t kBlockFloats = 64 * 1024;
#endif

MICA_INLINE int64_t Min64(int64_t a, int64_t b) { return a < b ? a : b; }
MICA_INLINE int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

MICA_INLINE int64_t BlockRows(int64_t k) {
  const int64_t tiles = k > 0 ? kBlockFloats / (k * kTileRows) : 64;
  return (tiles > 0 ? tiles : 1) * kTileRows;
}

// A few panels at a time: they may lie a multiple of a page apart, so that
// lines written together share a cache set. Row by row, and what lies a few
// rows on is fetched: a panel's part of a row is a line or two, of a page of
// its own where rows are long.
void PackPlain(const float* b, int64_t row_stride, int64_t n, int64_t k,
               float* dst) {
  constexpr int64_t kRowsAhead = 8, kColsAtOnce = 4 * kPanelCols;
  for (; n > 0; n -= kColsAtOnce, b += kColsAtOnce, dst += kColsAtOnce * k) {
    const int64_t cols = Min64(n, kColsAtOnce);
    const int64_t whole = cols / kPanelCols * kPanelCols;
    const Vm m0 = FirstLanes(Min64(cols - whole, kLanes));
    const Vm m1 = FirstLanes(cols - whole > kLanes ? cols - whole - kLanes : 0);
    for (int64_t i = 0; i < k; ++i) {
      const float* row = b + i * row_stride;
      if (i + kRowsAhead < k) {
        const float* ahead = row + kRowsAhead * row_stride;
        for (int64_t col = 0; col < cols; col += kLineFloats) {
          Prefetch(ahead + col);
        }
      }
      float* out = dst + i * kPanelCols;
      for (int64_t col = 0; col < whole; col += kPanelCols) {
        Store(out, Load(row + col));
        Store(out + kLanes, Load(row + col + kLanes));
        out += k * kPanelCols;
      }
      if (whole < cols) {
        Store(out, Load(row + whole, m0));
        // Without lanes the address may be past the row's end.
        Store(out + kLanes,
              cols - whole > kLanes ? Load(row + whole + kLanes, m1) : Zero());
      }
    }
  }
}

// Packs `rows` <= kLanes rows of b, each k long, to kLanes columns of a panel.
void PackStrip(const float* b, int64_t row_stride, int64_t rows, int64_t k,
               Vf scale, float* dst) {
  int64_t i = 0;
  for (; i < k; i += kLanes) {
    const int64_t depth = Min64(kLanes, k - i);
    Vf t[kLanes];
    if (rows == kLanes && depth == kLanes) {
      MICA_UNROLL
      for (int r = 0; r < kLanes; ++r) {
        t[r] = Load(b + r * row_stride + i) * scale;
      }
      Transpose(t);
      MICA_UNROLL
      for (int r = 0; r < kLanes; ++r) {
        Store(dst + (i + r) * kPanelCols, t[r]);
      }
    } else {
      const Vm m = FirstLanes(depth);
      for (int r = 0; r < kLanes; ++r) {
        t[r] = r < rows ? Load(b + r * row_stride + i, m) * scale : Zero();
      }
      Transpose(t);
      for (int r = 0; r < depth; ++r) Store(dst + (i + r) * kPanelCols, t[r]);
    }
  }
}

}  // namespace

void PackTransposed(const float* b, int64_t row_stride, int64_t n, int64_t k,
                    float scale, float* dst) {
  for (int64_t col = 0; col < n; col += kPanelCols) {
    for (int half = 0; half < 2; ++half) {
      const int64_t first = col + half * kLanes;
      const int64_t rows = first < n ? Min64(kLanes, n - first) : 0;
      PackStrip(b + first * row_stride, row_stride, rows, k, Set(scale),
                dst + half * kLanes);
    }
    dst += kPanelCols * k;
  }
  ClearUpperHalves();
}

namespace {

// Rows of a whose addresses differ by a multiple of a page share a few cache
// sets, and push each other out.
int64_t ScratchFloats(int64_t a_row_stride, int64_t m, int64_t k) {
  constexpr int64_t kPageFloats = 1024;
  if (a_row_stride % kPageFloats != 0 || k < 256 || m < 4) return 0;
  return Min64(m, BlockRows(k)) * (k + kLanes);
}

// Rows whose a stays in cache.
void GemmBlock(const GemmArgs& g) {
  // Tiles of equal height, rather than a thin last one.
  const int64_t tiles = CeilDiv(g.m, kTileRows);
  const bool wide = g.m * 2 <= kTileRows;
  const bool is_packed = g.b_row_stride == kPanelCols && g.k >= kPackedTerms;
  // The tiles of a panel share out the next one, and fetch it. Weights come
  // from memory at every run: asked for when they are needed, they hold up the
  // first tile of each panel for as long as some others take.
  const int64_t panel = g.k * kPanelCols;
  const int64_t rounds = tiles * (g.k / 4);
  const int64_t lines = CeilDiv(panel, kLineFloats);
  const int64_t step =
      rounds > 0 ? CeilDiv(lines, rounds) * kLineFloats : int64_t{0};
  for (int64_t col = 0; col < g.n;) {
    int64_t cols = Min64(kPanelCols, g.n - col);
    if (wide && g.n - col >= 2 * kPanelCols) cols = 2 * kPanelCols;
    const float* b = g.b + col / kPanelCols * g.b_panel_stride;
    const float* next =
        col + cols < g.n ? b + cols / kPanelCols * g.b_panel_stride : g.next_b;
    int64_t row = 0;
    for (int64_t t = 0; t < tiles; ++t) {
      const int height = static_cast<int>((g.m + t) / tiles);
      const int64_t done = t * (g.k / 4) * step;
      const bool fetches = next != nullptr && done < panel;
      OneTile(g, row, height, col, cols, is_packed,
              {.from = fetches ? next + done : b, .step = fetches ? step : 0});
      row += height;
    }
    col += cols;
  }
  ClearUpperHalves();
}

}  // namespace

void Gemm(const GemmArgs& g) {
  if (g.m <= 0 || g.n <= 0) return;
  int64_t block_rows = BlockRows(g.k);
  if (g.m <= block_rows && g.scratch == nullptr) return GemmBlock(g);
  // Blocks of equal size, rather than a thin last one.
  const int64_t blocks = CeilDiv(g.m, block_rows);
  block_rows = CeilDiv(CeilDiv(g.m, blocks), kTileRows) * kTileRows;
  for (int64_t row = 0; row < g.m; row += block_rows) {
    GemmArgs block = g;
    block.m = Min64(block_rows, g.m - row);
    if (row + block.m < g.m) block.next_b = g.b;
    block.a += row * g.a_row_stride;
    block.c += row * g.c_row_stride;
    if (g.residual != nullptr) block.residual += row * g.residual_row_stride;
    if (g.scratch != nullptr) {
      const int64_t stride = g.k + kLanes;
      for (int64_t i = 0; i < block.m; ++i) {
        __builtin_memcpy(g.scratch + i * stride, block.a + i * g.a_row_stride,
                         static_cast<size_t>(g.k) * sizeof(float));
      }
      block.a = g.scratch;
      block.a_row_stride = stride;
    }
    GemmBlock(block);
  }
}

void FillGemm(SimdTable& table) {
  table.gemm_cols = kPanelCols;
  table.gemm_rows = kTileRows;
  table.gemm = Gemm;
  table.gemm_scratch_floats = ScratchFloats;
  table.pack_transposed = PackTransposed;
  table.pack_plain = PackPlain;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
