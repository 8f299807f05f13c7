#include "kernels/cpu/product.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/parallel.h"
#if defined(MICA_XSMM)
#include "libxsmm.h"
#endif

namespace mica::cpu {
namespace {

// Up to this many rows dot products win over packing b for one use.
constexpr int64_t kDotRows = 8;
// Up to this many, reading a large b by its rows does.
constexpr int64_t kStreamedRows = 4;
// Where the operands are swapped: rows of b that meet all of a at a time.
constexpr int64_t kSwappedRows = 96;
// Up to this many floats b fits the second-level cache beside a, and is read
// by rows as fast as if packed.
constexpr int64_t kInPlaceFloats = 64 * 1024;
// So much of b is packed at a time where it is packed for one use: what a block
// was read from and written to is still in a cache when tiles come to it.
constexpr int64_t kPackedAtOnce = 64 * 1024;
// And so much where a is copied for each block: that costs more than what comes
// from a cache further away.
constexpr int64_t kPackedForCopies = 256 * 1024;

// So many rows of a large b are read at a time where few rows of a meet them:
// each is a stream through memory, a panel of all of them isn't.
constexpr int64_t kRowsAtOnce = 8;
// Products with no more rows in b than this write faster than they compute:
// they write whole rows, a tile's at a time.
constexpr int64_t kFewRows = 8;

// Up to this many multiplications libxsmm's code is a tenth faster than ours:
// it has fewer calls around the same sums.
constexpr int64_t kSmallWork = 128 * 128 * 128;

bool IsSmall(const ProductSpec& spec) {
  return spec.b_col_stride == 1 && !spec.is_frozen && !spec.widen &&
         !spec.has_bias && !spec.has_residual && spec.alpha == 1.0f &&
         spec.activation == Activation::kNone && spec.m > 0 && spec.n > 0 &&
         spec.k > 0 && spec.m <= kSmallWork && spec.n <= kSmallWork &&
         spec.k <= kSmallWork && spec.m * spec.n <= kSmallWork / spec.k;
}

#if defined(MICA_XSMM)
// Null if the library has no code for this size, or for this processor.
SmallProductFn FindSmall(const ProductSpec& spec) {
  auto size = [](int64_t n) { return static_cast<libxsmm_blasint>(n); };
  const libxsmm_blasint b_stride = size(spec.b_row_stride);
  const libxsmm_blasint a_stride = size(spec.a_row_stride);
  const libxsmm_blasint c_stride = size(spec.c_row_stride);
  if (b_stride < spec.n || a_stride < spec.k || c_stride < spec.n) {
    return nullptr;
  }
  const float one = 1, zero = 0;
  const int flags = LIBXSMM_GEMM_FLAG_NONE;
  return libxsmm_smmdispatch(size(spec.n), size(spec.m), size(spec.k),
                             &b_stride, &a_stride, &c_stride, &one, &zero,
                             &flags, nullptr);
}
#else
SmallProductFn FindSmall(const ProductSpec&) { return nullptr; }
#endif

// Whether the activation follows on stored results.
bool IsLate(Activation activation) {
  return activation != Activation::kNone && activation != Activation::kRelu;
}

// Whether b^T a^T, whose result is transposed, is cheaper than packing b. That
// moves a and c instead, and a third more for the result's second way.
bool IsSwapped(const ProductSpec& spec) {
  const double moved =
      static_cast<double>(spec.m) *
      (static_cast<double>(spec.n) * 4 / 3 + static_cast<double>(spec.k));
  const double packed =
      static_cast<double>(spec.n) * static_cast<double>(spec.k);
  return !spec.residual_is_c && moved < packed &&
         Simd().gemm_scratch_floats(spec.b_col_stride, spec.n, spec.k) == 0;
}

// Whether a panel of b, read where it is, would lie in so few sets of the
// first-level cache that its rows push each other out, for many rows of a.
bool IsCrowded(const ProductSpec& spec) {
  constexpr int64_t kQuarterPage = 256;  // In floats; of four sets, 32 lines.
  constexpr int64_t kMostLines = 32, kManyRows = 64;
  return spec.b_row_stride % kQuarterPage == 0 && spec.k > kMostLines &&
         spec.m >= kManyRows;
}

// Whether b is one column without gaps, and c another.
bool IsColumn(const ProductSpec& spec) {
  return spec.n == 1 && spec.m > kDotRows && spec.alpha == 1.0f &&
         (spec.b_row_stride == 1 || spec.k == 1) && spec.c_row_stride == 1 &&
         !spec.has_residual && !spec.residual_is_c;
}

WeightForm ChooseForm(const ProductSpec& spec) {
  if (spec.widen) return WeightForm::kPackAndRun;
  if (IsColumn(spec)) return WeightForm::kColumn;
  if (spec.is_frozen) return WeightForm::kPacked;
  if (spec.b_col_stride == 1) {
    const bool is_small =
        (spec.n * spec.k <= kInPlaceFloats && !IsCrowded(spec)) ||
        spec.m <= Simd().gemm_rows;
    return is_small ? WeightForm::kInPlace : WeightForm::kPackAndRun;
  }
  if (spec.alpha == 1.0f && spec.m <= kDotRows) return WeightForm::kDotProducts;
  return IsSwapped(spec) ? WeightForm::kSwapped : WeightForm::kPackAndRun;
}

// One row that meets a large b by its rows, with nothing to it before the end.
bool IsOneRow(const ProductSpec& spec, WeightForm form) {
  return form == WeightForm::kInPlace && spec.m == 1 && spec.alpha == 1.0f &&
         spec.n * spec.k > kInPlaceFloats && !spec.residual_is_c;
}

int ChooseThreads(const ProductSpec& spec) {
  const double work = static_cast<double>(spec.batch) *
                      static_cast<double>(spec.m) *
                      static_cast<double>(spec.n) * static_cast<double>(spec.k);
  return UsefulThreadsOfProduct(spec.num_threads, work);
}

}  // namespace

std::optional<std::string> Product::Prepare(const ProductSpec& spec,
                                            Product& product) {
  if (spec.a_col_stride != 1 && spec.k > 1) return "a's rows have gaps";
  if (spec.c_col_stride != 1 && spec.n > 1)
    return "the result's rows have gaps";
  if (spec.b_col_stride != 1 && spec.b_row_stride != 1 && spec.k > 1 &&
      spec.n > 1) {
    return "b has gaps in rows and columns";
  }
  product.spec_ = spec;
  // Of a single row or column the stride is free; say which way it lies.
  if (spec.n == 1 && spec.b_row_stride != 1) product.spec_.b_col_stride = 1;
  if (spec.k == 1 && product.spec_.b_col_stride != 1) {
    product.spec_.b_row_stride = 1;
  }
  product.form_ = ChooseForm(product.spec_);
  product.num_threads_ = ChooseThreads(product.spec_);
  if (IsSmall(product.spec_)) {
    product.small_ = FindSmall(product.spec_);
    if (product.small_ != nullptr) product.form_ = WeightForm::kXsmm;
  }
  return std::nullopt;
}

int Product::num_panels() const {
  const int64_t cols = Simd().gemm_cols;
  return static_cast<int>((spec_.n + cols - 1) / cols);
}

int64_t Product::PartScratch() const {
  const int64_t step = std::min(RowsOfB(), spec_.k);
  const auto floats_of = [this](int64_t k) {
    return Simd().gemm_scratch_floats(spec_.a_row_stride, spec_.m, k);
  };
  // The last rows of b are fewer, which takes more rows of a at a time.
  const int64_t rest = step > 0 ? spec_.k % step : 0;
  return RoundUpFloats(std::max(floats_of(step), floats_of(rest)));
}

int64_t Product::PanelsAtOnce() const {
  const int64_t floats = RowsOfB() * Simd().gemm_cols;
  const int64_t most = PartScratch() > 0 ? kPackedForCopies : kPackedAtOnce;
  return std::max<int64_t>(std::min<int64_t>(most / floats, num_panels()), 1);
}

int64_t Product::BlockFloats(int64_t panels) const {
  return RoundUpFloats(panels * Simd().gemm_cols * RowsOfB());
}

bool Product::CutsRows(int num_threads) const {
  const int64_t tile = Simd().gemm_rows;
  return num_threads > 1 && (spec_.m + tile - 1) / tile > num_panels();
}

int64_t Product::scratch_floats() const {
  if (form_ == WeightForm::kSwapped) {
    const int copies = spec_.batch > 1 ? num_threads_ : 1;
    return SwappedAFloats() * copies + SwappedPartFloats() * num_threads_;
  }
  const int64_t floats = PartScratch() * num_threads_;
  if (form_ != WeightForm::kPackAndRun) return floats;
  if (spec_.batch == 1 && CutsRows(num_threads_)) {
    return floats + BlockFloats(num_panels());
  }
  return floats + BlockFloats(PanelsAtOnce()) * num_threads_;
}

int64_t Product::SwappedAFloats() const {
  return RoundUpFloats(Simd().PackedFloats(spec_.m, spec_.k));
}

int64_t Product::SwappedPartFloats() const {
  return RoundUpFloats(std::min(kSwappedRows, spec_.n) * spec_.m);
}

int64_t Product::packed_floats() const {
  return RoundUpFloats(Simd().PackedFloats(spec_.n, spec_.k)) *
         (spec_.b_batch_stride == 0 ? 1 : spec_.batch);
}

void Product::Pack(const float* b, float* packed) const {
  const int64_t floats = RoundUpFloats(Simd().PackedFloats(spec_.n, spec_.k));
  const int64_t copies = packed_floats() / std::max<int64_t>(floats, 1);
  for (int64_t i = 0; i < copies; ++i) {
    PackPanels(b + i * spec_.b_batch_stride,
               {.panel_end = num_panels(), .k_end = spec_.k},
               packed + i * floats);
  }
}

std::string Product::packed_layout() const {
  return absl::StrCat("panels of [", spec_.k, ",", spec_.n, "]{",
                      spec_.b_row_stride, ",", spec_.b_col_stride, "}, ",
                      packed_floats(), " floats by ", spec_.b_batch_stride);
}

void Product::PackPanels(const float* b, const Part& part,
                         float* packed) const {
  if (spec_.widen) {
    return spec_.widen(b,
                       {.panel_begin = part.panel_begin,
                        .panel_end = part.panel_end,
                        .k_begin = part.k_begin,
                        .k_end = part.k_end},
                       packed);
  }
  const int64_t col = part.panel_begin * Simd().gemm_cols;
  const int64_t n = std::min(part.panel_end * Simd().gemm_cols, spec_.n) - col;
  const int64_t k = part.k_end - part.k_begin;
  b += col * spec_.b_col_stride + part.k_begin * spec_.b_row_stride;
  if (spec_.b_col_stride == 1) {
    Simd().pack_plain(b, spec_.b_row_stride, n, k, packed);
  } else {
    Simd().pack_transposed(b, spec_.b_col_stride, n, k, 1.0f, packed);
  }
}

int64_t Product::RowsOfA() const {
  constexpr int64_t kLongRow = 256, kQuarterPage = 256;
  const bool is_flat = spec_.k <= kFewRows && spec_.n >= kLongRow &&
                       spec_.m * spec_.n > kInPlaceFloats;
  if (!is_flat) return std::max<int64_t>(spec_.m, 1);
  // Lines of rows a page apart share a set of the first-level cache.
  constexpr int64_t kCrowded = 4;
  return spec_.c_row_stride % kQuarterPage == 0 ? kCrowded : Simd().gemm_rows;
}

int64_t Product::RowsOfB() const {
  const bool is_streamed = form_ == WeightForm::kInPlace &&
                           spec_.m <= kStreamedRows &&
                           spec_.activation == Activation::kNone &&
                           spec_.n * spec_.k > kInPlaceFloats;
  if (is_streamed) return kRowsAtOnce;
  // A packed panel in the first-level cache, what a has of it in the second.
  constexpr int64_t kPanelRows = 512, kManyRows = 64;
  const bool is_deep =
      (form_ == WeightForm::kPacked || form_ == WeightForm::kPackAndRun) &&
      spec_.m >= kManyRows && spec_.k >= 2 * kPanelRows &&
      spec_.activation == Activation::kNone;
  if (!is_deep) return std::max<int64_t>(spec_.k, 1);
  const int64_t steps = (spec_.k + kPanelRows - 1) / kPanelRows;
  const int64_t rows = (spec_.k + steps - 1) / steps;
  return (rows + spec_.widen_step - 1) / spec_.widen_step * spec_.widen_step;
}

void Product::RunPart(const ProductArgs& args, const Part& part,
                      float* scratch) const {
  const int64_t cols = Simd().gemm_cols;
  if (form_ != WeightForm::kPackAndRun) {
    const bool in_place = form_ == WeightForm::kInPlace;
    const int64_t panel_stride = in_place ? cols : cols * spec_.k;
    RunRows(args, args.b + part.panel_begin * panel_stride, panel_stride, part,
            scratch);
    return;
  }
  float* packed = scratch;
  scratch += BlockFloats(PanelsAtOnce());
  const int64_t rows = RowsOfB(), panels = PanelsAtOnce();
  int64_t k = part.k_begin;
  do {  // Once for a sum of nothing, too.
    for (int64_t panel = part.panel_begin; panel < part.panel_end;
         panel += panels) {
      Part block = part;
      block.panel_begin = panel;
      block.panel_end = std::min(panel + panels, part.panel_end);
      block.k_begin = k;
      block.k_end = std::min(k + rows, part.k_end);
      PackPanels(args.b, block, packed);
      RunRows(args, packed, cols * (block.k_end - k), block, scratch);
    }
    k += rows;
  } while (k < part.k_end);
}

void Product::RunStrips(const ProductArgs& args, int num_threads) const {
  const int64_t tile = Simd().gemm_rows, cols = Simd().gemm_cols;
  const int64_t strips = (spec_.m + tile - 1) / tile;
  const bool packs = form_ == WeightForm::kPackAndRun;
  float* packed = args.scratch;
  float* scratch = args.scratch + (packs ? BlockFloats(num_panels()) : 0);
  const int64_t rows = packs ? RowsOfB() : std::max<int64_t>(spec_.k, 1);
  int64_t k = 0;
  do {
    const Part block{.row_end = spec_.m,
                     .panel_end = num_panels(),
                     .k_begin = k,
                     .k_end = std::min(k + rows, spec_.k)};
    const int64_t block_rows = block.k_end - block.k_begin;
    if (packs) {
      Parallel(num_threads, num_panels(), [&](int64_t begin, int64_t end) {
        Part panels = block;
        panels.panel_begin = begin;
        panels.panel_end = end;
        PackPanels(args.b, panels, packed + begin * cols * block_rows);
      });
    }
    ParallelPieces(num_threads, strips,
                   [&](int piece, int64_t begin, int64_t end) {
                     Part part = block;
                     part.row_begin = begin * tile;
                     part.row_end = std::min(end * tile, spec_.m);
                     float* own = scratch + piece * PartScratch();
                     if (packs) {
                       RunRows(args, packed, cols * block_rows, part, own);
                     } else {
                       RunPart(args, part, own);
                     }
                   });
    k += rows;
  } while (k < spec_.k);
}

void Product::RunRows(const ProductArgs& args, const float* b,
                      int64_t panel_stride, const Part& part,
                      float* scratch) const {
  const int64_t rows = RowsOfA(), step = RowsOfB();
  const int64_t b_row =
      form_ == WeightForm::kInPlace ? spec_.b_row_stride : Simd().gemm_cols;
  for (int64_t row = part.row_begin; row < part.row_end; row += rows) {
    Part strip = part;
    strip.row_begin = row;
    strip.row_end = std::min(row + rows, part.row_end);
    int64_t k = part.k_begin;
    do {
      strip.k_begin = k;
      strip.k_end = std::min(k + step, part.k_end);
      RunTiles(args, b + (k - part.k_begin) * b_row, panel_stride, strip,
               scratch);
      k += step;
    } while (k < part.k_end);
  }
}

void Product::RunTiles(const ProductArgs& args, const float* b,
                       int64_t panel_stride, const Part& part,
                       float* scratch) const {
  const int64_t cols = Simd().gemm_cols;
  const int64_t row = part.row_begin, col = part.panel_begin * cols;
  const bool in_place = form_ == WeightForm::kInPlace;
  const bool needs_scratch = PartScratch() > 0;
  // Sums of further rows of b are added to those of the first.
  const bool is_first = part.k_begin == 0;
  float* c = args.c + row * spec_.c_row_stride + col;
  const float* bias = nullptr;
  const float* residual = is_first ? nullptr : c;
  if (is_first && args.bias != nullptr) bias = args.bias + col;
  if (is_first && args.residual != nullptr) {
    residual = args.residual + row * spec_.residual_row_stride + col;
  }
  Simd().gemm({.a = args.a + row * spec_.a_row_stride + part.k_begin,
               .a_row_stride = spec_.a_row_stride,
               .b = b,
               .b_row_stride = in_place ? spec_.b_row_stride : cols,
               .b_panel_stride = panel_stride,
               .c = c,
               .c_row_stride = spec_.c_row_stride,
               .m = part.row_end - row,
               .n = std::min(part.panel_end * cols, spec_.n) - col,
               .k = part.k_end - part.k_begin,
               .alpha = spec_.alpha,
               .bias = bias,
               .residual = residual,
               .residual_row_stride =
                   is_first ? spec_.residual_row_stride : spec_.c_row_stride,
               .activation = spec_.activation,
               .scratch = needs_scratch ? scratch : nullptr});
}

void Product::Finish(const ProductArgs& args, int64_t col, int64_t cols,
                     const float* bias, const float* residual) const {
  Simd().finish({.c = args.c + col,
                 .c_row_stride = spec_.c_row_stride,
                 .rows = spec_.m,
                 .n = cols,
                 .bias = bias != nullptr ? bias + col : nullptr,
                 .activation = spec_.activation,
                 .residual = residual != nullptr ? residual + col : nullptr,
                 .residual_row_stride = spec_.residual_row_stride});
}

bool Product::residual_may_be_c() const {
  // An activation after the tile is stored would find the residual gone.
  return form_ != WeightForm::kSwapped && !IsLate(spec_.activation) &&
         !IsOneRow(spec_, form_);
}

void Product::RunDots(const ProductArgs& args, int num_threads) const {
  // Four columns at a time share the rows of a that they read.
  const int64_t pieces = (spec_.n + 3) / 4;
  const bool is_late = IsLate(spec_.activation);
  const float* early = is_late ? nullptr : args.residual;
  const float* late = is_late ? args.residual : nullptr;
  Parallel(num_threads, pieces, [&](int64_t begin, int64_t end) {
    const int64_t col = begin * 4, cols = std::min(end * 4, spec_.n) - col;
    Simd().dot_products(
        {.x = args.a,
         .x_row_stride = spec_.a_row_stride,
         .w = args.b + col * spec_.b_col_stride,
         .w_row_stride = spec_.b_col_stride,
         .bias = args.bias != nullptr ? args.bias + col : nullptr,
         .has_relu = spec_.activation == Activation::kRelu,
         .residual = early != nullptr ? early + col : nullptr,
         .residual_row_stride = spec_.residual_row_stride,
         .out = args.c + col,
         .out_row_stride = spec_.c_row_stride,
         .m = spec_.m,
         .n = cols,
         .k = spec_.k});
    if (is_late) Finish(args, col, cols, nullptr, late);
  });
}

void Product::RunOneRow(const ProductArgs& args, int num_threads) const {
  Parallel(num_threads, num_panels(), [&](int64_t begin, int64_t end) {
    const int64_t panel = Simd().gemm_cols;
    const int64_t col = begin * panel,
                  cols = std::min(end * panel, spec_.n) - col;
    std::fill_n(args.c + col, cols, 0.0f);
    Simd().add_one_row(args.a, args.b + col, spec_.b_row_stride, spec_.k, cols,
                       args.c + col);
    Finish(args, col, cols, args.bias, args.residual);
  });
}

void Product::RunColumn(const ProductArgs& args, int num_threads) const {
  Parallel(num_threads, (spec_.m + 3) / 4, [&](int64_t begin, int64_t end) {
    const int64_t row = begin * 4, rows = std::min(end * 4, spec_.m) - row;
    float* c = args.c + row;
    Simd().dot_products({.x = args.b,
                         .x_row_stride = spec_.k,
                         .w = args.a + row * spec_.a_row_stride,
                         .w_row_stride = spec_.a_row_stride,
                         .out = c,
                         .out_row_stride = rows,
                         .m = 1,
                         .n = rows,
                         .k = spec_.k});
    if (args.bias != nullptr) {
      for (int64_t i = 0; i < rows; ++i) c[i] += args.bias[0];
    }
    Simd().finish({.c = c,
                   .c_row_stride = rows,
                   .rows = 1,
                   .n = rows,
                   .activation = spec_.activation});
  });
}

void Product::RunSwapped(const ProductArgs& args, int num_threads) const {
  float* packed = args.scratch;
  float* results = packed + SwappedAFloats();
  Simd().pack_transposed(args.a, spec_.a_row_stride, spec_.m, spec_.k, 1.0f,
                         packed);
  const int64_t blocks = (spec_.n + kSwappedRows - 1) / kSwappedRows;
  const int64_t panel_cols = Simd().gemm_cols;
  ParallelPieces(num_threads, blocks,
                 [&](int piece, int64_t begin, int64_t end) {
                   float* result = results + piece * SwappedPartFloats();
                   for (int64_t block = begin; block < end; ++block) {
                     const int64_t col = block * kSwappedRows;
                     const int64_t cols = std::min(kSwappedRows, spec_.n - col);
                     Simd().gemm({.a = args.b + col * spec_.b_col_stride,
                                  .a_row_stride = spec_.b_col_stride,
                                  .b = packed,
                                  .b_row_stride = panel_cols,
                                  .b_panel_stride = panel_cols * spec_.k,
                                  .c = result,
                                  .c_row_stride = spec_.m,
                                  .m = cols,
                                  .n = spec_.m,
                                  .k = spec_.k,
                                  .alpha = spec_.alpha});
                     Simd().transpose32(result, spec_.m, args.c + col,
                                        spec_.c_row_stride, cols, spec_.m);
                     Finish(args, col, cols, args.bias, args.residual);
                   }
                 });
}

void Product::RunOne(const ProductArgs& args, int num_threads) const {
  if (form_ == WeightForm::kXsmm) {
    small_(args.b, args.a, args.c);
    return;
  }
  if (form_ == WeightForm::kDotProducts) return RunDots(args, num_threads);
  if (form_ == WeightForm::kSwapped) return RunSwapped(args, num_threads);
  if (form_ == WeightForm::kColumn) return RunColumn(args, num_threads);
  if (IsOneRow(spec_, form_)) return RunOneRow(args, num_threads);
  if (CutsRows(num_threads)) return RunStrips(args, num_threads);
  const int64_t part_scratch = scratch_floats() / num_threads_;
  ParallelPieces(num_threads, num_panels(),
                 [&](int piece, int64_t begin, int64_t end) {
                   RunPart(args,
                           {.row_end = spec_.m,
                            .panel_begin = begin,
                            .panel_end = end,
                            .k_end = spec_.k},
                           args.scratch + piece * part_scratch);
                 });
}

void Product::Run(const ProductArgs& args) const {
  if (spec_.batch == 1) return RunOne(args, num_threads_);
  const int64_t packed_stride =
      spec_.b_batch_stride == 0
          ? 0
          : RoundUpFloats(Simd().PackedFloats(spec_.n, spec_.k));
  const int64_t b_stride =
      form_ == WeightForm::kPacked ? packed_stride : spec_.b_batch_stride;
  const int64_t scratch_each = scratch_floats() / num_threads_;
  ParallelPieces(
      num_threads_, spec_.batch, [&](int piece, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          RunOne(
              {.a = args.a + i * spec_.a_batch_stride,
               .b = args.b + i * b_stride,
               .bias = args.bias,
               .residual = args.residual != nullptr
                               ? args.residual + i * spec_.residual_batch_stride
                               : nullptr,
               .c = args.c + i * spec_.c_batch_stride,
               .scratch = args.scratch + piece * scratch_each},
              1);
        }
      });
}

}  // namespace mica::cpu
