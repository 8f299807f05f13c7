#ifndef MICA_KERNELS_CPU_SIMD_TABLE_H_
#define MICA_KERNELS_CPU_SIMD_TABLE_H_

#include <cstdint>

#include "kernels/cpu/region_loops.h"
#include "kernels/cpu/simd_training.h"

// The loops that are compiled once for each instruction set, as a table of
// function pointers. No framework types: pointers, counts, strides. Strides
// are in elements. "In place" means that an output may be the same array as an
// input of the same element size and layout; other overlap is not allowed.

namespace mica::cpu {

// Element types that have vector loops. A bool is one byte, 0 or 1.
enum class Elem : int { kF32, kF64, kI64, kI32, kBool };
inline constexpr int kNumElems = 5;
inline constexpr int64_t kElemBytes[kNumElems] = {4, 8, 8, 4, 1};

// Types of 16 bits, which are float32 while they are computed with.
enum class Half : int { kBFloat, kHalf };
inline constexpr int kNumHalves = 2;

// Arithmetic that these types have loops of their own for.
enum class HalfOp : int {
  kRelu,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kSquare,
  kFloor,
  kCeil,
  kRound,
  kTrunc,
  kClamp,      // To numbers[0] .. numbers[1].
  kLeakyRelu,  // numbers[0] times what is negative.
  kHardswish,
  kHardsigmoid,
  kNeg,
  kAbs,
  kAdd,  // From here on of two operands.
  kSub,
  kMul,
  kDiv,
  kMaximum,  // A nan wins.
  kMinimum,
};
inline constexpr int kNumHalfOps = 21;

// Types that windows along a row are pooled in.
enum class Pooled : int { kF32, kF64, kBFloat, kHalf };
inline constexpr int kNumPooled = 4;

enum class Unary : int {
  kNeg,
  kAbs,
  kRelu,
  kSquare,
  kCube,
  kReciprocal,
  kSqrt,
  kRsqrt,
  kExp,
  kErf,
  kTanh,
  kSigmoid,
  kSilu,
  kGeluErf,
  kGeluTanh,
  kNot,  // bool -> bool
};
inline constexpr int kNumUnary = 16;

// Of an element x and the numbers p and q.
enum class Pointwise1 : int {
  kFloor,
  kCeil,
  kTrunc,
  kRound,
  kFrac,
  kSign,
  kHardswish,
  kHardsigmoid,
  kLeakyRelu,   // x > 0 ? x : p * x
  kHardshrink,  // -p <= x <= p ? 0 : x
  kThreshold,   // x <= p ? q : x
};
inline constexpr int kNumPointwise1 = 11;

enum class Binary : int {
  kAdd,
  kAddScaled,  // a + alpha * b
  kSub,
  kMul,
  kDiv,      // floating point only
  kMaximum,  // a nan wins
  kMinimum,
  kTanhBackward,  // a * (1 - b * b), and below gelu's slope at b times a
  kGeluErfBackward,
  kGeluTanhBackward,
  kEq,  // from here on the output is bool
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,  // from here on the inputs are bool too
  kOr,
  kXor,
};
inline constexpr int kNumBinary = 19;

// Which operands are arrays (v) and which a single element (s).
enum class Form : int { kVV, kVS, kSV };
inline constexpr int kNumForms = 3;

enum class Reduction : int { kSum, kMax, kMin };
inline constexpr int kNumReductions = 3;

// What becomes of many elements besides, in parts: see FoldArgs.
enum class Fold : int {
  kSum,
  kSumAbs,
  kSumSquares,
  kLargest,  // A nan wins.
  kSmallest,
  kLargestAbs,
  kSmallestAbs,
  kProduct,    // Of whole numbers, too, which wrap around.
  kMoments,    // The squares of the distances to the mean, and the mean.
  kLogSumExp,  // Exponentials of what is shifted by `means`; of float32 alone.
};
inline constexpr int kNumFolds = 10;

enum class Activation : int {
  kNone,
  kRelu,
  kGeluErf,
  kGeluTanh,
  kTanh,
  kSigmoid,
  kSilu,
  kRelu6,
  kHardswish,
};

// c[m,n] = act(alpha a[m,k] b[k,n] + bias[n]) + residual[m,n], float32.
struct GemmArgs {
  const float* a = nullptr;  // Unit stride along k.
  int64_t a_row_stride = 0;
  // Element (k, n) of b lies at
  //   b + (n / cols) * b_panel_stride + k * b_row_stride + n % cols
  // with cols = SimdTable::gemm_cols. Packed: row stride cols, panel stride
  // cols * k. Read in place: panel stride cols, row stride that of the matrix.
  const float* b = nullptr;
  int64_t b_row_stride = 0;
  int64_t b_panel_stride = 0;
  // Where the panel lies, if any, that is read after this product's last one.
  const float* next_b = nullptr;
  float* c = nullptr;  // Unit stride along n.
  int64_t c_row_stride = 0;
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1.0f;
  const float* bias = nullptr;      // [n] or null.
  const float* residual = nullptr;  // Unit stride along n, or null. May be c.
  int64_t residual_row_stride = 0;
  Activation activation = Activation::kNone;
  float* scratch = nullptr;  // SimdTable::gemm_scratch_floats(), null for 0.
};

// out[m,n] = act(x[m,k] w[n,k]^T + bias[n]) + residual, float32, w read in
// place: for few rows.
struct DotArgs {
  const float* x = nullptr;  // Unit stride along k, as has w.
  int64_t x_row_stride = 0;
  const float* w = nullptr;
  int64_t w_row_stride = 0;
  const float* bias = nullptr;  // [n] or null.
  bool has_relu = false;
  const float* residual = nullptr;  // Unit stride along n, or null. May be out.
  int64_t residual_row_stride = 0;
  float* out = nullptr;  // Unit stride along n.
  int64_t out_row_stride = 0;
  int64_t m = 0, n = 0, k = 0;
};

// c = act(c + bias[n]) + residual, in place, over rows of n float32.
struct FinishArgs {
  float* c = nullptr;
  int64_t c_row_stride = 0;
  int64_t rows = 0, n = 0;
  const float* bias = nullptr;  // Or null.
  Activation activation = Activation::kNone;
  const float* residual = nullptr;  // Or null.
  int64_t residual_row_stride = 0;
};

// c[m,n] += a[m,k] b[k,n], with unit stride along n in c.
struct PlainGemmArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  int64_t a_row_stride = 0, a_col_stride = 0;
  int64_t b_row_stride = 0, b_col_stride = 0;
  int64_t c_row_stride = 0;
  int64_t m = 0, n = 0, k = 0;
};

// A window that slides over images whose channels lie next to each other.
// Strides are in elements; pixels of the result follow each other row by row,
// image by image.
struct WindowArgs {
  const float* x = nullptr;
  int64_t x_image_stride = 0, x_row_stride = 0, x_col_stride = 0;
  int64_t in_rows = 1, in_cols = 1;
  int64_t out_rows = 1, out_cols = 1;
  int64_t kernel_rows = 1, kernel_cols = 1;
  int64_t row_step = 1, col_step = 1;          // The window's stride.
  int64_t row_padding = 0, col_padding = 0;    // Before the first pixel.
  int64_t row_dilation = 1, col_dilation = 1;  // Between taps.
  int64_t channels = 0;                        // Of a pixel of x.
  float* out = nullptr;
  int64_t out_pixel_stride = 0;
  int64_t begin = 0, end = 0;  // Pixels of the result.
};

// out[pixel, n] = act(sum over taps and channels of x and weight + bias[n] +
// residual[pixel, n]), float32.
struct ConvolutionArgs {
  WindowArgs window;
  // Panels of SimdTable::gemm_cols columns each, as pack_convolution() makes
  // them; of a depthwise one [tap][channel of the group][column].
  const float* weight = nullptr;
  int64_t columns = 0;          // n; of a depthwise one those of all groups.
  const float* bias = nullptr;  // [n] or null.
  const float* residual = nullptr;  // Or null. May be the result.
  int64_t residual_pixel_stride = 0;
  Activation activation = Activation::kNone;
  const float* zeros = nullptr;  // As many as there are channels.
  // convolution_scratch_bytes() of memory.
  void* scratch = nullptr;
};

// A convolution with 3 by 3 taps, in steps of one and without dilation, by
// Winograd's F(2x2, 3x3). Patches are 2 by 2 pixels of the result, the last of
// a row or column may be less; they are counted row by row, image by image.
struct WinogradArgs {
  // The convolution as it is, of the plain weight, which serves where numbers
  // aren't finite; window.begin and end don't count. The scratch memory is of
  // winograd_scratch_bytes().
  ConvolutionArgs conv;
  // Of each point of a patch, a panel: [panel][16][channels][gemm_cols].
  const float* weight = nullptr;
  // Patches of a block; see winograd_block().
  int64_t block = 0;
  int64_t begin = 0, end = 0;  // Patches of the result.
};

// Softmax(q k^T * scale + mask) v of one head, float32, unit stride in the
// feature dimension of q, k, v and out.
struct AttentionHeadArgs {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* out = nullptr;
  int64_t q_row_stride = 0, k_row_stride = 0, v_row_stride = 0;
  int64_t out_row_stride = 0;
  int64_t num_queries = 0, num_keys = 0, head_dim = 0, value_dim = 0;
  float scale = 1.0f;
  // At most one of the two masks: added to the scores, or false = left out.
  const float* mask = nullptr;
  const bool* bool_mask = nullptr;
  int64_t mask_row_stride = 0, mask_col_stride = 0;  // May be 0.
  bool is_causal = false;                            // Query i sees keys 0..i.
  float* lse = nullptr;  // Log of the sum of exponentials, or null.
  int64_t lse_stride = 0;
  float* scratch = nullptr;  // SimdTable::attention_scratch_floats().
};

struct LayerNormArgs {
  const float* x = nullptr;
  const float* addend = nullptr;  // Or null: normalises x + addend.
  float* sum = nullptr;           // Or null: gets x + addend.
  const float* gamma = nullptr;   // [n] or null.
  const float* beta = nullptr;    // [n] or null.
  float* y = nullptr;
  float* mean = nullptr;    // [rows] or null.
  float* rstd = nullptr;    // [rows] or null.
  int64_t rows = 0, n = 0;  // Row-major, dense.
  float eps = 0;
};

// Gradients of a layer norm's x, gamma and beta. The last two are added to.
struct LayerNormBackwardArgs {
  const float* dy = nullptr;
  const float* x = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* gamma = nullptr;  // [n] or null.
  float* dx = nullptr;           // Or null. May be dy or x.
  float* dgamma = nullptr;       // [n] or null.
  float* dbeta = nullptr;        // [n] or null.
  int64_t rows = 0, n = 0;       // Row-major, dense.
};

// Adam's step on n elements: framework-free twin of mica.adam_step. Arrays are
// of one element type; results may be the operands of the same name.
struct AdamArgs {
  const void* self = nullptr;
  const void* grad = nullptr;
  const void* avg = nullptr;
  const void* avg_sq = nullptr;
  void* new_self = nullptr;
  void* new_avg = nullptr;
  void* new_avg_sq = nullptr;
  int64_t n = 0;
  double grad_sign = 1;  // -1 maximises.
  double shrink = 1;     // Of self before the step.
  double decay = 0;      // Of self in the gradient.
  double weight = 0;     // Of the gradient in avg,
  double beta2 = 0;      // of avg_sq in itself.
  double root = 1;       // What divides the root of avg_sq.
  double eps = 0;
  double size = 0;
};
using AdamFn = void (*)(const AdamArgs& args);

using UnaryFn = void (*)(const void* x, void* out, int64_t n);
using BinaryFn = void (*)(const void* a, const void* b, void* out, int64_t n,
                          const void* alpha);
// Rows of n elements each; steps from row to row are in bytes.
struct BinaryRows {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  int64_t a_step = 0, b_step = 0, out_step = 0;
  int64_t rows = 0, n = 0;
  const void* alpha = nullptr;
};
using BinaryRowsFn = void (*)(const BinaryRows& rows);

// out[i] = cond[i] ? a[i * (a is v)] : b[i * (b is v)].
using SelectFn = void (*)(const bool* cond, const void* a, const void* b,
                          void* out, int64_t n);
using ClampFn = void (*)(const void* x, void* out, int64_t n, const void* lo,
                         const void* hi);
using ConvertFn = void (*)(const void* x, void* out, int64_t n);
// An operand's step is 1, or 0 for one element that all meet. Of one operand b
// isn't read. There are two numbers, needed or not.
using HalfFn = void (*)(const void* a, int64_t a_step, const void* b,
                        int64_t b_step, void* out, int64_t n,
                        const float* numbers);
// out[r] = reduction over n of x[r * n + i].
using ReduceRowsFn = void (*)(const void* x, void* out, int64_t rows,
                              int64_t n);
// out[i] = reduction over rows of x[r * n + i].
using ReduceColumnsFn = ReduceRowsFn;
// A tile of numbers, x[r * step + c] of rows by n, of which none are 0, that is
// folded into a total for each row, or for each column. Totals are doubles;
// those of whole numbers and counts are of 64 bits.
struct FoldArgs {
  const void* x = nullptr;
  int64_t step = 0;
  int64_t rows = 0, n = 0;
  void* totals = nullptr;
  double* means = nullptr;  // Of moments.
  // Elements that are in each total already; of none, the totals begin here.
  int64_t done = 0;
  // The bits that make an element unequal to 0, where such are counted.
  uint64_t mask = 0;
};
using FoldFn = void (*)(const FoldArgs& args);

// Of each row of n >= 1 elements the extreme one and where it stands: the first
// nan, or the first of equal ones. Null for what isn't wanted.
using ArgExtremeFn = void (*)(const void* x, int64_t rows, int64_t n,
                              void* values, int64_t* indices);
// The same of each of n columns of rows that begin `step` elements apart. What
// `values` and `indices` hold stands before them if `first_row`, the number of
// row 0, isn't 0.
using ArgColumnsFn = void (*)(const void* x, int64_t step, int64_t rows,
                              int64_t n, int64_t first_row, void* values,
                              int64_t* indices);
using TransposeFn = void (*)(const void* src, int64_t src_row_stride, void* dst,
                             int64_t dst_row_stride, int64_t rows,
                             int64_t cols);

// rows rows of n elements at `to`, each of the one element that lies there at
// `from`. Writes up to kSpreadSlack bytes more.
using SpreadFn = void (*)(const void* from, int64_t stride_bytes, int64_t n,
                          int64_t rows, void* to);
inline constexpr int64_t kSpreadSlack = 32;

// n elements at `to`, that lie `stride` elements apart at `from`.
using GatherFn = void (*)(const void* from, int64_t stride, int64_t n,
                          void* to);

// The elements at `from`, of which there are `limit`, that n indices name, at
// `to`. Returns the place of the first index that names none, and n if all do;
// from some place before that on nothing is written.
using PickFn = int64_t (*)(const void* from, int64_t limit,
                           const int64_t* indices, int64_t n, void* to);

struct SimdTable {
  const char* name = "";
  // Null where the combination has no loop. Arithmetic gives the inputs' type.
  UnaryFn unary[kNumUnary][kNumElems] = {};
  BinaryFn binary[kNumBinary][kNumElems][kNumForms] = {};
  BinaryRowsFn binary_rows[kNumBinary][kNumElems][kNumForms] = {};
  ClampFn clamp[kNumElems] = {};
  ClampFn activations[kNumPointwise1][2] = {};  // Of float and double.
  // By log2 of the element's bytes (1, 2, 4, 8), then by which of a and b are
  // arrays: 0 none, 1 a, 2 b, 3 both.
  SelectFn select[4][4] = {};
  ConvertFn convert[kNumElems][kNumElems] = {};  // [from][to]
  ConvertFn widen[kNumHalves] = {};              // To float32.
  ConvertFn narrow[kNumHalves] = {};             // To the nearest.
  HalfFn half_loops[kNumHalfOps][kNumHalves] = {};
  // One tap of n windows: out[i] becomes x[i * step] where that is above it, as
  // a nan is above all.
  void (*max_taps[kNumPooled])(const void* x, int64_t step, int64_t n,
                               void* out) = {};
  ReduceRowsFn reduce_rows[kNumReductions][kNumElems] = {};
  ArgExtremeFn arg_extreme[kNumReductions][kNumElems] = {};  // None of sums.
  ArgColumnsFn arg_columns[kNumReductions][kNumElems] = {};
  ReduceColumnsFn reduce_columns[kNumReductions][kNumElems] = {};
  FoldFn fold_rows[kNumFolds][kNumElems] = {};
  FoldFn fold_columns[kNumFolds][kNumElems] = {};
  // Sums of numbers of 16 bits.
  FoldFn half_sum_rows[kNumHalves] = {};
  FoldFn half_sum_columns[kNumHalves] = {};
  // How many elements aren't 0, by log2 of their bytes.
  FoldFn count_rows[4] = {};
  FoldFn count_columns[4] = {};

  // Rows of n, dense, in place or not.
  void (*softmax)(const float* x, float* out, int64_t rows,
                  int64_t n) = nullptr;
  void (*log_softmax)(const float* x, float* out, int64_t rows,
                      int64_t n) = nullptr;
  ReduceRowsFn log_sum_exp = nullptr;  // Of floats.
  void (*layer_norm)(const LayerNormArgs& args) = nullptr;
  void (*layer_norm_backward)(const LayerNormBackwardArgs& args) = nullptr;
  // From the gradient and the forward's result, rows of n, dense. In place.
  void (*softmax_backward)(const float* dy, const float* y, float* out,
                           int64_t rows, int64_t n) = nullptr;
  void (*log_softmax_backward)(const float* dy, const float* y, float* out,
                               int64_t rows, int64_t n) = nullptr;
  // A row of attention backward: s becomes p = exp(s - lse), dp becomes
  // p * (dp - delta) * scale.
  void (*attention_slopes)(float* s, float* dp, int64_t n, float lse,
                           float delta, float scale) = nullptr;
  AdamFn adam[kNumElems] = {};  // Null but for floats.
  float (*dot)(const float* a, const float* b, int64_t n) = nullptr;

  // Move the elements of src[rows][cols] to dst[cols][rows], of as many bits as
  // the name says; unit stride in the last dimension of both.
  TransposeFn transpose8 = nullptr;
  TransposeFn transpose16 = nullptr;
  TransposeFn transpose32 = nullptr;
  TransposeFn transpose64 = nullptr;
  TransposeFn transpose128 = nullptr;

  SpreadFn spread32 = nullptr;  // Of elements of so many bits.
  SpreadFn spread64 = nullptr;
  GatherFn gather8 = nullptr;
  GatherFn gather16 = nullptr;
  GatherFn gather32 = nullptr;
  GatherFn gather64 = nullptr;
  PickFn pick8 = nullptr;
  PickFn pick16 = nullptr;
  PickFn pick32 = nullptr;
  PickFn pick64 = nullptr;

  int gemm_cols = 0;  // Columns of a packed panel of b.
  int gemm_rows = 0;  // Rows of the largest tile.
  void (*gemm)(const GemmArgs& args) = nullptr;
  int64_t (*gemm_scratch_floats)(int64_t a_row_stride, int64_t m,
                                 int64_t k) = nullptr;
  // For the other element types; null for float32 and bool.
  void (*plain_gemm[kNumElems])(const PlainGemmArgs& args) = {};
  // Packs scale * b^T, b being [n, k] with unit stride along k, into panels;
  // dst holds PackedFloats(n, k). Columns past n become 0.
  void (*pack_transposed)(const float* b, int64_t row_stride, int64_t n,
                          int64_t k, float scale, float* dst) = nullptr;
  // Packs b, [k, n] with unit stride along n.
  void (*pack_plain)(const float* b, int64_t row_stride, int64_t n, int64_t k,
                     float* dst) = nullptr;
  void (*dot_products)(const DotArgs& args) = nullptr;
  // Adds x[k] b[k,n] to out[n], with unit stride along n.
  void (*add_one_row)(const float* x, const float* b, int64_t b_row_stride,
                      int64_t k, int64_t n, float* out) = nullptr;
  // In place, over rows of n.
  void (*activate)(Activation activation, float* c, int64_t row_stride,
                   int64_t rows, int64_t n) = nullptr;
  void (*finish)(const FinishArgs& args) = nullptr;

  void (*convolution)(const ConvolutionArgs& args) = nullptr;
  int64_t (*convolution_scratch_bytes)(const WindowArgs& window) = nullptr;
  // Pixels of the result that it does together.
  int64_t (*convolution_block)(const WindowArgs& window) = nullptr;
  // Packs weight[n, channels, taps], row-major, into panels: each holds, tap
  // by tap and channel by channel, gemm_cols columns. Columns past n become 0.
  void (*pack_convolution)(const float* weight, int64_t n, int64_t channels,
                           int64_t taps, float* dst) = nullptr;
  // The same of weight[channels, n, taps], whose channels may lie further
  // apart, with the taps in reverse order: the convolution that takes the
  // gradient of a result to that of x.
  void (*pack_turned_convolution)(const float* weight, int64_t channel_stride,
                                  int64_t n, int64_t channels, int64_t taps,
                                  float* dst) = nullptr;
  void (*winograd)(const WinogradArgs& args) = nullptr;
  int64_t (*winograd_scratch_bytes)(const WindowArgs& window,
                                    int64_t block) = nullptr;
  // Patches of a block that suit the caches, if there are that many in all.
  int64_t (*winograd_block)(int64_t channels, int64_t patches) = nullptr;
  // Transforms a weight that is packed for convolution(), with 9 taps, into
  // panels as WinogradArgs wants them; in all 16 times
  // PackedFloats(n, channels).
  void (*pack_winograd)(const float* plain, int64_t n, int64_t channels,
                        float* dst) = nullptr;
  // A window of its own for each group of window.channels channels, which give
  // as many columns: 1, 2, 4 or 8, and at most most_group_channels, of which
  // some fill a vector. Sums aren't made of pieces.
  int64_t most_group_channels = 0;
  void (*depthwise)(const ConvolutionArgs& args) = nullptr;
  // The largest element, or the sum times `scale`, of each window and channel;
  // taps outside of x don't count.
  void (*max_window)(const WindowArgs& args) = nullptr;
  void (*sum_window)(const WindowArgs& args, float scale) = nullptr;
  // out[r, i] = act(x[r, i] * scale[i] + shift[i]), rows of n, in place or not.
  void (*scale_rows)(const float* x, int64_t x_row_stride, const float* scale,
                     const float* shift, Activation activation, float* out,
                     int64_t out_row_stride, int64_t rows, int64_t n) = nullptr;
  // The same for one scale and shift.
  void (*scale_line)(const float* x, float scale, float shift,
                     Activation activation, float* out, int64_t n) = nullptr;

  int64_t (*attention_scratch_floats)(int64_t num_keys, int64_t head_dim,
                                      int64_t value_dim) = nullptr;
  void (*attention_head)(const AttentionHeadArgs& args) = nullptr;

  RegionLoops region;

  TrainingTable training;
  // One sample's step of an LSTM of n units: gates[4n] are i, f, g, o before
  // their functions; c is updated, h written.
  void (*lstm_cell)(const float* gates, float* c, float* h,
                    int64_t n) = nullptr;
  // The same of a GRU: gates[3n] are r, z, n. out may be h.
  void (*gru_cell)(const float* input_gates, const float* hidden_gates,
                   const float* h, float* out, int64_t n) = nullptr;

  int64_t PackedFloats(int64_t n, int64_t k) const {
    return (n + gemm_cols - 1) / gemm_cols * gemm_cols * k;
  }
};

// The widest table that this machine can run, chosen at the first call.
// MICA_SIMD=v3 in the environment holds it to AVX2, MICA_SIMD=v1 to what every
// processor of the architecture has.
const SimdTable& Simd();

// The table's loops for elements of so many bytes; null where there is none.
GatherFn GatherOf(int64_t bytes);
PickFn PickOf(int64_t bytes);

// Each table, null when this machine can't run it; the first never is.
const SimdTable* SimdV1();
const SimdTable* SimdV3();
const SimdTable* SimdV4();

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_SIMD_TABLE_H_
