// Convolution whose weights are larger than its images: late layers of a net,
// small batches. Its time goes into moving the weights, so that each pass
// reads or writes them once, where they lie. The images are unfolded into
// columns instead: one row for each channel and tap, one column for each pixel
// of the result.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/convolution_call.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/image.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

constexpr int64_t kBytes = sizeof(float);
// With more pixels the columns cost more than the weights.
constexpr int64_t kMaxPixels = 128;
// Columns up to this many floats stay in the second-level cache while the rows
// of a gradient pass; these are then done in tiles of some height.
constexpr int64_t kCachedFloats = 256 * 1024;

// One axis of the window.
struct Axis {
  int64_t taps = 1, step = 1, padding = 0, dilation = 1;
  int64_t in = 1, out = 1;

  int64_t At(int64_t place, int64_t tap) const {
    return place * step - padding + tap * dilation;
  }
  bool Has(int64_t at) const { return at >= 0 && at < in; }
};

struct Geometry {
  Image x, y;  // The input and the result, or their gradients.
  Axis rows, cols;
  int num_threads = 1;

  int64_t taps() const { return rows.taps * cols.taps; }
  int64_t depth() const { return x.c * taps(); }
  int64_t pixels() const { return y.pixels(); }
};

// Calls visit(offset in x, column, count) for the pixels that tap `d` of the
// depth meets in each row of the result; those between have no pixel of x.
template <typename Visit>
void ForRuns(const Geometry& g, int64_t d, Visit visit) {
  const int64_t channel = d / g.taps(), tap = d % g.taps();
  const int64_t row_tap = tap / g.cols.taps, col_tap = tap % g.cols.taps;
  int64_t begin = 0, end = g.cols.out;
  while (begin < end && !g.cols.Has(g.cols.At(begin, col_tap))) ++begin;
  while (end > begin && !g.cols.Has(g.cols.At(end - 1, col_tap))) --end;
  if (begin == end) return;
  const int64_t first =
      channel * g.x.c_stride + g.cols.At(begin, col_tap) * g.x.w_stride;
  for (int64_t n = 0; n < g.x.n; ++n) {
    for (int64_t r = 0; r < g.rows.out; ++r) {
      const int64_t row = g.rows.At(r, row_tap);
      if (!g.rows.Has(row)) continue;
      visit(first + n * g.x.n_stride + row * g.x.h_stride,
            (n * g.rows.out + r) * g.cols.out + begin, end - begin);
    }
  }
}

// Rows begin..end of the columns, [end - begin, pixels].
void Unfold(const Geometry& g, const float* x, int64_t begin, int64_t end,
            float* to) {
  const int64_t step = g.cols.step * g.x.w_stride;
  std::fill_n(to, (end - begin) * g.pixels(), 0.0f);
  for (int64_t d = begin; d < end; ++d, to += g.pixels()) {
    ForRuns(g, d, [&](int64_t from, int64_t column, int64_t count) {
      for (int64_t i = 0; i < count; ++i) to[column + i] = x[from + i * step];
    });
  }
}

// Adds rows begin..end of the columns to the pixels that they came from.
void AddFolded(const Geometry& g, const float* columns, int64_t begin,
               int64_t end, float* x) {
  const int64_t step = g.cols.step * g.x.w_stride;
  for (int64_t d = begin; d < end; ++d, columns += g.pixels()) {
    ForRuns(g, d, [&](int64_t to, int64_t column, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        x[to + i * step] += columns[column + i];
      }
    });
  }
}

// Calls visit(offset in y, row, column) for each row of an image of y, whose
// channels are rows of [y.c, pixels].
template <typename Visit>
void ForRows(const Image& y, Visit visit) {
  for (int64_t n = 0; n < y.n; ++n) {
    for (int64_t c = 0; c < y.c; ++c) {
      for (int64_t h = 0; h < y.h; ++h) {
        visit(n * y.n_stride + c * y.c_stride + h * y.h_stride, c,
              (n * y.h + h) * y.w);
      }
    }
  }
}

int64_t Entry(absl::Span<const int64_t> list, int i) {
  return list.size() == 1 ? list[0] : list[i];
}

// The parameters from `window` on are stride, padding, dilation, transposed,
// output padding, groups.
std::optional<std::string> SetGeometry(const KernelRequest& request,
                                       const TensorType& x,
                                       const TensorType& weight,
                                       const TensorType& y, int window,
                                       Geometry& g) {
  if (request.Bool(window + 3)) return "is transposed";
  if (request.Int(window + 5) != 1) return "has groups";
  if (x.rank() != 3 && x.rank() != 4) return "has more than two axes";
  if (!weight.is_row_major()) return "the weight has gaps";
  if (x.num_elements() == 0 || y.num_elements() == 0 ||
      weight.num_elements() == 0) {
    return "is empty";
  }
  g.x = ImageOf(x);
  g.y = ImageOf(y);
  const Image kernel = ImageOf(weight);
  const int last = x.rank() - 3;
  auto axis = [&](int i, int64_t taps, int64_t in, int64_t out) {
    return Axis{.taps = taps,
                .step = Entry(request.Ints(window), i),
                .padding = Entry(request.Ints(window + 1), i),
                .dilation = Entry(request.Ints(window + 2), i),
                .in = in,
                .out = out};
  };
  g.cols = axis(last, kernel.w, g.x.w, g.y.w);
  if (last == 1) g.rows = axis(0, kernel.h, g.x.h, g.y.h);
  // The columns against the weight, one row of each a term.
  if (g.pixels() > kMaxPixels || 2 * g.pixels() > g.y.c) {
    return "the images are larger than the weights";
  }
  const double work = static_cast<double>(g.pixels()) *
                      static_cast<double>(weight.num_elements());
  g.num_threads = UsefulThreadsOfProduct(request.num_threads, work);
  return std::nullopt;
}

// Hands out parts of the scratch memory.
struct Scratch {
  int64_t floats = 0;
  int64_t Take(int64_t count) {
    return std::exchange(floats, floats + RoundUpFloats(count));
  }
};

struct ForwardState {
  Geometry g;
  int bias_arg = -1, out_arg = -1, scratch_arg = -1;
  int64_t columns = 0, product = 0, rows = 0;  // In the scratch memory.
  int64_t rows_each = 0;                       // Of a thread.
};

// product[y.c, pixels] = weight[y.c, depth] columns[depth, pixels].
bool LaunchForward(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ForwardState*>(state);
  const Geometry& g = s.g;
  const auto* x = static_cast<const float*>(args[0]);
  const auto* weight = static_cast<const float*>(args[1]);
  auto* out = static_cast<float*>(args[s.out_arg]);
  auto* scratch = static_cast<float*>(args[s.scratch_arg]);
  float* columns = scratch + s.columns;
  float* product = scratch + s.product;
  Parallel(g.num_threads, g.depth(), [&](int64_t begin, int64_t end) {
    Unfold(g, x, begin, end, columns + begin * g.pixels());
  });
  ParallelPieces(
      g.num_threads, g.y.c, [&](int piece, int64_t begin, int64_t end) {
        Simd().gemm({.a = weight + begin * g.depth(),
                     .a_row_stride = g.depth(),
                     .b = columns,
                     .b_row_stride = g.pixels(),
                     .b_panel_stride = Simd().gemm_cols,
                     .c = product + begin * g.pixels(),
                     .c_row_stride = g.pixels(),
                     .m = end - begin,
                     .n = g.pixels(),
                     .k = g.depth(),
                     .scratch = s.rows_each > 0
                                    ? scratch + s.rows + piece * s.rows_each
                                    : nullptr});
      });
  const auto* bias =
      s.bias_arg >= 0 ? static_cast<const float*>(args[s.bias_arg]) : nullptr;
  ForRows(g.y, [&](int64_t to, int64_t row, int64_t column) {
    const float* from = product + row * g.pixels() + column;
    const float shift = bias != nullptr ? bias[row] : 0.0f;
    for (int64_t w = 0; w < g.y.w; ++w) {
      out[to + w * g.y.w_stride] = from[w] + shift;
    }
  });
  return true;
}

Verdict PrepareForward(const KernelRequest& request) {
  auto state = std::make_shared<ForwardState>();
  Geometry& g = state->g;
  if (request.operands[1].is_frozen) return No{"the weight is packed once"};
  if (auto no = SetGeometry(request, request.operands[0].type,
                            request.operands[1].type, request.results[0].type,
                            3, g)) {
    return No{*no};
  }
  state->bias_arg = request.OperandIndex(2);
  if (state->bias_arg >= 0 &&
      !request.operands[state->bias_arg].type.is_row_major()) {
    return No{"the bias has gaps"};
  }
  state->out_arg = static_cast<int>(request.operands.size());
  state->scratch_arg = state->out_arg + 1;
  Scratch scratch;
  state->columns = scratch.Take(g.depth() * g.pixels());
  state->product = scratch.Take(g.y.c * g.pixels());
  state->rows_each =
      RoundUpFloats(Simd().gemm_scratch_floats(g.depth(), g.y.c, g.depth()));
  state->rows = scratch.Take(state->rows_each * g.num_threads);
  Prepared prepared;
  prepared.launch = LaunchForward;
  prepared.scratch_bytes = scratch.floats * kBytes;
  prepared.state = std::move(state);
  return prepared;
}

// Positions of a backward's parameters and results.
using Param = ConvolutionBackwardParam;

struct BackwardState {
  Geometry g;  // Of x the gradient's layout too.
  Image grad_x;
  bool wants[3] = {};
  int results = 0, scratch_arg = -1;
  int64_t planes = 0, pixels = 0, parts = 0;  // In the scratch memory.
  int64_t columns = 0;
  int64_t part_each = 0;  // Of a thread.
};

// Where one launch's operands lie.
struct BackwardCall {
  const float* x = nullptr;
  const float* weight = nullptr;
  float* results[3] = {};
  float* planes = nullptr;   // The gradient, [y.c, pixels].
  float* pixels = nullptr;   // The same, [pixels, y.c].
  float* columns = nullptr;  // Panels of [pixels, columns of a panel].
  float* parts = nullptr;
};

// The gradient of channels begin..end of x: panel by panel of
// columns[pixels, depth] = grad[pixels, y.c] weight[y.c, depth].
void RunGradInput(const BackwardState& s, const BackwardCall& call,
                  int64_t begin, int64_t end, float* part) {
  Geometry g = s.g;
  g.x = s.grad_x;
  const int64_t width = Simd().gemm_cols;
  float* packed = part;
  float* panel = packed + RoundUpFloats(width * g.y.c);
  float* turned = panel + RoundUpFloats(width * g.pixels());
  float* rows = turned + RoundUpFloats(width * g.pixels());
  const bool needs_rows =
      Simd().gemm_scratch_floats(g.y.c, g.pixels(), g.y.c) > 0;
  float* grad_x = call.results[Param::kGradInput];
  for (int64_t n = 0; n < g.x.n; ++n) {
    for (int64_t c = begin; c < end; ++c) {
      for (int64_t h = 0; h < g.x.h; ++h) {
        float* row =
            grad_x + n * g.x.n_stride + c * g.x.c_stride + h * g.x.h_stride;
        for (int64_t w = 0; w < g.x.w; ++w) row[w * g.x.w_stride] = 0;
      }
    }
  }
  for (int64_t d = begin * g.taps(); d < end * g.taps(); d += width) {
    const int64_t cols = std::min(width, end * g.taps() - d);
    Simd().pack_plain(call.weight + d, g.depth(), cols, g.y.c, packed);
    Simd().gemm({.a = call.pixels,
                 .a_row_stride = g.y.c,
                 .b = packed,
                 .b_row_stride = width,
                 .b_panel_stride = width * g.y.c,
                 .c = panel,
                 .c_row_stride = width,
                 .m = g.pixels(),
                 .n = cols,
                 .k = g.y.c,
                 .scratch = needs_rows ? rows : nullptr});
    Simd().transpose32(panel, width, turned, g.pixels(), g.pixels(), cols);
    AddFolded(g, turned, d, d + cols, grad_x);
  }
}

// Panels begin..end of the columns, packed.
void PackColumns(const BackwardState& s, const BackwardCall& call,
                 int64_t begin, int64_t end, float* part) {
  const Geometry& g = s.g;
  const int64_t width = Simd().gemm_cols;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t d = i * width;
    const int64_t cols = std::min(width, g.depth() - d);
    Unfold(g, call.x, d, d + cols, part);
    float* panel = call.columns + d * g.pixels();
    if (cols < width) std::fill_n(panel, width * g.pixels(), 0.0f);
    Simd().transpose32(part, g.pixels(), panel, width, cols, g.pixels());
  }
}

// Rows begin..end of grad_weight[y.c, depth] = planes[y.c, pixels]
// columns[pixels, depth].
void RunGradWeight(const BackwardState& s, const BackwardCall& call,
                   int64_t begin, int64_t end) {
  const Geometry& g = s.g;
  const int64_t width = Simd().gemm_cols;
  const bool is_cached = g.depth() * g.pixels() <= kCachedFloats;
  const int64_t height = is_cached ? 2 * Simd().gemm_rows : end - begin;
  for (int64_t row = begin; row < end; row += height) {
    Simd().gemm({.a = call.planes + row * g.pixels(),
                 .a_row_stride = g.pixels(),
                 .b = call.columns,
                 .b_row_stride = width,
                 .b_panel_stride = width * g.pixels(),
                 .c = call.results[Param::kGradWeight] + row * g.depth(),
                 .c_row_stride = g.depth(),
                 .m = std::min(height, end - row),
                 .n = g.depth(),
                 .k = g.pixels()});
  }
}

void RunGradBias(const BackwardState& s, const BackwardCall& call) {
  const float* row = call.planes;
  for (int64_t c = 0; c < s.g.y.c; ++c, row += s.g.pixels()) {
    double sum = 0;
    for (int64_t i = 0; i < s.g.pixels(); ++i) sum += row[i];
    call.results[Param::kGradBias][c] = static_cast<float>(sum);
  }
}

bool LaunchBackward(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const BackwardState*>(state);
  const Geometry& g = s.g;
  const auto* grad = static_cast<const float*>(args[Param::kGrad]);
  auto* scratch = static_cast<float*>(args[s.scratch_arg]);
  BackwardCall call = {
      .x = static_cast<const float*>(args[Param::kInput]),
      .weight = static_cast<const float*>(args[Param::kWeight]),
      .planes = scratch + s.planes,
      .pixels = scratch + s.pixels,
      .columns = scratch + s.columns,
      .parts = scratch + s.parts};
  for (int i = 0; i < 3; ++i) {
    call.results[i] = static_cast<float*>(args[s.results + i]);
  }
  ForRows(g.y, [&](int64_t from, int64_t row, int64_t column) {
    float* to = call.planes + row * g.pixels() + column;
    for (int64_t w = 0; w < g.y.w; ++w) to[w] = grad[from + w * g.y.w_stride];
  });
  if (s.wants[Param::kGradInput]) {
    Simd().transpose32(call.planes, g.pixels(), call.pixels, g.y.c, g.y.c,
                       g.pixels());
    ParallelPieces(
        g.num_threads, g.x.c, [&](int piece, int64_t begin, int64_t end) {
          RunGradInput(s, call, begin, end, call.parts + piece * s.part_each);
        });
  }
  if (s.wants[Param::kGradWeight]) {
    const int64_t width = Simd().gemm_cols;
    const int64_t panels = (g.depth() + width - 1) / width;
    ParallelPieces(
        g.num_threads, panels, [&](int piece, int64_t begin, int64_t end) {
          PackColumns(s, call, begin, end, call.parts + piece * s.part_each);
        });
    Parallel(g.num_threads, g.y.c, [&](int64_t begin, int64_t end) {
      RunGradWeight(s, call, begin, end);
    });
  }
  if (s.wants[Param::kGradBias]) RunGradBias(s, call);
  return true;
}

void TakeScratch(BackwardState& s, Scratch& scratch) {
  const Geometry& g = s.g;
  const int64_t width = Simd().gemm_cols;
  const int64_t panels = (g.depth() + width - 1) / width;
  s.planes = scratch.Take(g.y.c * g.pixels());
  const int64_t panel = RoundUpFloats(width * g.pixels());
  if (s.wants[Param::kGradInput]) {
    s.pixels = scratch.Take(g.y.c * g.pixels());
    s.part_each =
        RoundUpFloats(width * g.y.c) + 2 * panel +
        RoundUpFloats(Simd().gemm_scratch_floats(g.y.c, g.pixels(), g.y.c));
  }
  if (s.wants[Param::kGradWeight]) {
    s.columns = scratch.Take(panels * width * g.pixels());
    s.part_each = std::max(s.part_each, panel);
  }
  s.parts = scratch.Take(s.part_each * g.num_threads);
}

Verdict PrepareBackward(const KernelRequest& request) {
  auto state = std::make_shared<BackwardState>();
  BackwardState& s = *state;
  const TensorType& x = request.operands[Param::kInput].type;
  if (auto no = SetGeometry(request, x, request.operands[Param::kWeight].type,
                            request.operands[Param::kGrad].type, Param::kWindow,
                            s.g)) {
    return No{*no};
  }
  const auto& mask =
      std::get<std::vector<bool>>((*request.arguments)[Param::kMask]);
  for (int i = 0; i < 3; ++i) {
    s.wants[i] = mask[i] && request.results[i].is_used;
    if (i > 0 && s.wants[i] && !request.results[i].type.is_row_major()) {
      return No{"a gradient has gaps"};
    }
  }
  if (s.wants[Param::kGradInput])
    s.grad_x = ImageOf(request.results[Param::kGradInput].type);
  s.results = static_cast<int>(request.operands.size());
  s.scratch_arg = s.results + 3;
  Scratch scratch;
  TakeScratch(s, scratch);
  Prepared prepared;
  prepared.launch = LaunchBackward;
  prepared.scratch_bytes = scratch.floats * kBytes;
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterFewPixelsConvolution(KernelRegistry& registry) {
  registry.Add({.op = "aten.convolution", .dtype = DType::kF32},
               KernelRank::kFast,
               {"cpu.few_pixels_convolution", PrepareForward});
  registry.Add({.op = "aten.convolution_backward", .dtype = DType::kF32},
               KernelRank::kFast,
               {"cpu.few_pixels_convolution_backward", PrepareBackward});
}

}  // namespace mica::cpu
