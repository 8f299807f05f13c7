// Convolution of images whose channels are last. Others are brought into that
// form, and the result back, on the way.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/tensor/tensor.h"
#include "kernels/cpu/activation_name.h"
#include "kernels/cpu/convolution_call.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/image.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

using Param = ConvolutionParam;

constexpr int64_t kBytes = sizeof(float);
// Up to this many channels a window's row is read as one run of pixels.
constexpr int64_t kFewChannels = 8;

// A part of the scratch memory, in floats from its start.
struct Part {
  int64_t offset = 0, floats = 0;
};

struct ConvState {
  // All that doesn't depend on the run: addresses, begin and end are missing.
  ConvolutionArgs conv;
  int64_t groups = 1;
  // Each group has one channel, or a few of which some fill a vector.
  bool is_depthwise = false;
  bool is_packed = false;  // The weight comes packed, by a pack request.

  Image x, staged_x;
  bool stages_x = false;
  bool pads_x = false;  // The staged x has its padding around it.
  Image out, staged_out, residual;
  bool stages_out = false, stages_residual = false;
  // A thread stages so many pixels of one group and copies them while they are
  // in a cache; 0 if all are.
  int64_t block_pixels = 0;
  TensorType weight;  // As given.

  int bias_arg = -1, residual_arg = -1, out_arg = -1, scratch_arg = -1;
  Part x_part, out_part, residual_part, weight_part, plain_part, tables_part;
  int64_t scratch_floats = 0;
  std::vector<float> zeros;
  int num_threads = 1;

  int64_t taps() const {
    return weight.num_elements() / (weight.dims[0] * weight.dims[1]);
  }
  int64_t columns() const { return weight.dims[0] / groups; }  // Of a group.
  // Of one group's packed weight.
  int64_t packed_floats() const {
    return is_depthwise
               ? weight.num_elements()
               : Simd().PackedFloats(columns(), weight.dims[1] * taps());
  }
  int64_t all_packed_floats() const {
    return is_depthwise ? packed_floats() : packed_floats() * groups;
  }
  int64_t table_floats() const { return tables_part.floats / num_threads; }
  int64_t staged_floats() const { return out_part.floats / num_threads; }
  void Reserve(Part& part, int64_t floats) {
    part = {scratch_floats, AlignUp(floats * kBytes) / kBytes};
    scratch_floats += part.floats;
  }
};

void PackWeight(const ConvState& s, const float* weight, float* packed) {
  if (s.is_depthwise) {
    const int64_t columns = s.weight.dims[0], width = s.weight.dims[1];
    for (int64_t k = 0; k < width; ++k) {
      Simd().transpose32(weight + k * s.taps(), width * s.taps(),
                         packed + k * columns, width * columns, columns,
                         s.taps());
    }
    return;
  }
  const int64_t channels = s.weight.dims[1];
  for (int64_t g = 0; g < s.groups; ++g) {
    Simd().pack_convolution(weight + g * s.columns() * channels * s.taps(),
                            s.columns(), channels, s.taps(),
                            packed + g * s.packed_floats());
  }
}

const float* PackedWeight(const ConvState& s, const float* weight,
                          float* scratch) {
  if (s.is_packed) return weight;
  if (!s.weight.is_row_major()) {
    float* plain = scratch + s.plain_part.offset;
    CopyRowMajor(s.weight, weight, plain);
    weight = plain;
  }
  float* packed = scratch + s.weight_part.offset;
  PackWeight(s, weight, packed);
  return packed;
}

const float* StagedX(const ConvState& s, const float* x, float* scratch) {
  if (!s.stages_x) return x;
  float* staged = scratch + s.x_part.offset;
  Image inner = s.staged_x;
  float* first = staged;
  if (s.pads_x) {
    std::fill_n(staged, s.staged_x.elements(), 0.0f);
    const int64_t rows = (s.staged_x.h - s.x.h) / 2;
    const int64_t cols = (s.staged_x.w - s.x.w) / 2;
    first += rows * inner.h_stride + cols * inner.w_stride;
    inner.h = s.x.h;
    inner.w = s.x.w;
  }
  CopyImage(x, s.x, first, inner, s.num_threads);
  return staged;
}

// Whether a group is cut for the threads by pixels, not by columns.
bool IsCutByPixels(const ConvState& s) {
  const int64_t panel = Simd().gemm_cols;
  const int64_t panels = (s.conv.columns + panel - 1) / panel;
  return s.is_depthwise || s.num_threads == 1 ||
         s.out.pixels() >= panels * Simd().gemm_rows;
}

// Pixels begin..end of one group, whose `out` is the result's first.
void RunPixels(const ConvState& s, ConvolutionArgs args, int64_t begin,
               int64_t end, float* staged, float* out) {
  const auto run = s.is_depthwise ? Simd().depthwise : Simd().convolution;
  const int64_t step = s.block_pixels > 0 ? s.block_pixels : end - begin;
  for (; begin < end; begin += step) {
    args.window.begin = begin;
    args.window.end = std::min(begin + step, end);
    if (s.block_pixels == 0) {
      run(args);
      continue;
    }
    args.window.out = staged - begin * args.window.out_pixel_stride;
    run(args);
    Image group = s.out;
    group.c = args.columns;
    CopyPixels(staged, begin, args.window.end, out, group);
  }
}

// One group, cut for the threads by pixels, or by columns if those are few.
void RunGroup(const ConvState& s, const ConvolutionArgs& args, float* scratch,
              float* out) {
  const int64_t pixels = s.staged_out.pixels();
  const int64_t panel = Simd().gemm_cols;
  const int64_t panels = (args.columns + panel - 1) / panel;
  auto piece = [&](ConvolutionArgs part, int i, int64_t begin, int64_t end) {
    part.scratch = scratch + s.tables_part.offset + i * s.table_floats();
    RunPixels(s, part, begin, end,
              scratch + s.out_part.offset + i * s.staged_floats(), out);
  };
  if (IsCutByPixels(s)) {
    ParallelPieces(
        s.num_threads, pixels,
        [&](int i, int64_t begin, int64_t end) { piece(args, i, begin, end); });
    return;
  }
  const int64_t depth =
      args.window.channels * args.window.kernel_rows * args.window.kernel_cols;
  ParallelPieces(s.num_threads, panels, [&](int i, int64_t begin, int64_t end) {
    piece(Columns(args, begin * panel, std::min(end * panel, args.columns),
                  depth),
          i, 0, pixels);
  });
}

bool LaunchConvolution(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ConvState*>(state);
  auto pointer = [args](int arg) {
    return arg < 0 ? nullptr : static_cast<float*>(args[arg]);
  };
  float* scratch = pointer(s.scratch_arg);
  ConvolutionArgs conv = s.conv;
  conv.window.x = StagedX(s, pointer(Param::kX), scratch);
  conv.weight = PackedWeight(s, pointer(Param::kWeight), scratch);
  conv.bias = pointer(s.bias_arg);
  conv.zeros = s.zeros.data();
  conv.residual = pointer(s.residual_arg);
  if (s.stages_residual) {
    float* staged = scratch + s.residual_part.offset;
    CopyImage(conv.residual, s.residual, staged, s.staged_out, s.num_threads);
    conv.residual = staged;
  }
  float* out = pointer(s.out_arg);
  const bool stages_all = s.stages_out && s.block_pixels == 0;
  conv.window.out = stages_all ? scratch + s.out_part.offset : out;
  for (int64_t g = 0; g < (s.is_depthwise ? 1 : s.groups); ++g) {
    ConvolutionArgs group =
        Columns(conv, g * s.columns(), (g + 1) * s.columns(), /*depth=*/0);
    if (s.is_depthwise) group.columns = s.conv.columns;
    group.weight += g * s.packed_floats();
    group.window.x += g * conv.window.channels;
    RunGroup(s, group, scratch, out + g * s.columns() * s.out.c_stride);
  }
  if (stages_all) {
    CopyImage(conv.window.out, s.staged_out, out, s.out, s.num_threads);
  }
  return true;
}

// The window's sizes and steps; the only axis of a 1-d convolution is its
// columns.
void SetWindow(const KernelRequest& request, ConvState& s) {
  WindowArgs& w = s.conv.window;
  const Image kernel = ImageOf(s.weight);
  const int last = s.weight.rank() - 3;
  w.in_rows = s.x.h;
  w.in_cols = s.x.w;
  w.out_rows = s.out.h;
  w.out_cols = s.out.w;
  w.kernel_rows = kernel.h;
  w.kernel_cols = kernel.w;
  w.col_step = Entry(request.Ints(Param::kStride), last);
  w.col_padding = Entry(request.Ints(Param::kPadding), last);
  w.col_dilation = Entry(request.Ints(Param::kDilation), last);
  if (last == 1) {
    w.row_step = Entry(request.Ints(Param::kStride), 0);
    w.row_padding = Entry(request.Ints(Param::kPadding), 0);
    w.row_dilation = Entry(request.Ints(Param::kDilation), 0);
  }
  w.channels = kernel.c;
}

// Whether each group has a channel, or a few, of its own vector's.
bool HasNarrowGroups(const ConvState& s) {
  // More terms are summed piece by piece; see simd/convolution.cc.
  constexpr int64_t kMostTerms = 256;
  const int64_t width = s.weight.dims[1];
  if (s.groups == 1 || s.columns() != width) return false;
  if (width == 1) return true;
  return width <= Simd().most_group_channels && (width & (width - 1)) == 0 &&
         width * s.taps() <= kMostTerms;
}

// Whether pixels that a tile reads together share few sets of the first-level
// cache, so that they push each other out, and each is read often enough to be
// copied to where they don't.
bool SharesSets(const ConvState& s) {
  constexpr int64_t kPageFloats = 1024, kLeastReads = 64;
  const WindowArgs& w = s.conv.window;
  if (s.is_depthwise || s.taps() == 1) return false;
  // Of a pixel a group sees a part alone: the sets of the others stay unused.
  const int64_t apart = s.groups > 1 ? kPageFloats / 4 : kPageFloats;
  const int64_t stride = s.x.HasChannelsLast() ? s.x.w_stride : s.x.c;
  return stride * w.col_step % apart == 0 &&
         s.columns() * s.taps() >= kLeastReads * w.row_step * w.col_step;
}

// Decides how x is read: as it lies, or from a copy.
void SetX(ConvState& s) {
  constexpr int64_t kLineFloats = 16;
  WindowArgs& w = s.conv.window;
  // The few channels of a picture: a row of the window's pixels is one run.
  s.pads_x = s.groups == 1 && s.x.c <= kFewChannels && w.kernel_cols > 1 &&
             w.col_dilation == 1;
  const bool shares_sets = SharesSets(s);
  s.stages_x = s.pads_x || shares_sets || !s.x.HasChannelsLast();
  s.staged_x = s.x;
  if (s.pads_x) {
    s.staged_x = PixelMajor(s.x.n, s.x.c, s.x.h + 2 * w.row_padding,
                            s.x.w + 2 * w.col_padding);
    w.in_rows = s.staged_x.h;
    w.in_cols = s.staged_x.w;
    w.row_padding = w.col_padding = 0;
    w.channels = s.x.c * w.kernel_cols;
    w.kernel_cols = 1;
  } else if (s.stages_x) {
    const int64_t gap = shares_sets ? kLineFloats : 0;
    s.staged_x = PixelMajor(s.x.n, s.x.c + gap, s.x.h, s.x.w);
  }
  w.x_image_stride = s.staged_x.n_stride;
  w.x_row_stride = s.staged_x.h_stride;
  w.x_col_stride = s.staged_x.w_stride;
  if (s.stages_x) s.Reserve(s.x_part, s.staged_x.elements());
  if (!s.pads_x) s.staged_x.c = s.x.c;
}

// Decides where the result is written, and how a residual is read.
std::optional<std::string> SetOut(const KernelRequest& request, ConvState& s) {
  std::optional<int64_t> stride = s.out.PixelStride();
  s.stages_out = !stride.has_value();
  s.staged_out = PixelMajor(s.out.n, s.out.c, s.out.h, s.out.w);
  s.conv.window.out_pixel_stride = stride.value_or(s.out.c);
  if (s.residual_arg < 0) return std::nullopt;
  s.residual = ImageOf(request.operands[s.residual_arg].type);
  stride = s.residual.PixelStride();
  s.stages_residual = !stride.has_value();
  if (s.stages_residual) s.Reserve(s.residual_part, s.out.elements());
  s.conv.residual_pixel_stride = stride.value_or(s.out.c);
  return std::nullopt;
}

std::optional<std::string> SetState(const KernelRequest& request,
                                    ConvState& s) {
  const TensorType& x = request.operands[Param::kX].type;
  const TensorType& out = request.results[0].type;
  s.weight = request.operands[Param::kWeight].type;
  if (request.Bool(Param::kTransposed)) return "is transposed";
  if (x.rank() > 4) return "has more than two axes";
  if (out.num_elements() == 0 || s.weight.num_elements() == 0 ||
      x.num_elements() == 0) {
    return "is empty";
  }
  if (!out.is_dense() && !ImageOf(out).PixelStride().has_value()) {
    return "the result has gaps";
  }
  s.x = ImageOf(x);
  s.out = ImageOf(out);
  s.groups = request.Int(Param::kGroups);
  s.is_depthwise = HasNarrowGroups(s);
  s.conv.columns = s.is_depthwise ? s.out.c : s.columns();
  s.out_arg = static_cast<int>(request.operands.size());
  s.bias_arg = request.OperandIndex(Param::kBias);
  if (s.bias_arg >= 0 && !request.operands[s.bias_arg].type.is_row_major()) {
    return "the bias has gaps";
  }
  if (request.arguments->size() > Param::kActivation) {
    s.residual_arg = request.OperandIndex(Param::kResidual);
    const auto activation = ActivationNamed(request.String(Param::kActivation));
    if (!activation.has_value()) return "an unknown activation";
    s.conv.activation = *activation;
  }
  SetWindow(request, s);
  SetX(s);
  return SetOut(request, s);
}

void SetThreads(const KernelRequest& request, ConvState& s) {
  const double work = static_cast<double>(s.out.elements()) *
                      static_cast<double>(s.weight.dims[1] * s.taps());
  s.num_threads = UsefulThreadsOfProduct(request.num_threads, work);
}

// Decides how much of the result is staged at a time.
void StageOut(ConvState& s) {
  // Pixels of a block stay in the second-level cache.
  constexpr int64_t kBlockFloats = 32 * 1024;
  if (!IsCutByPixels(s) || !s.out.HasOneRun()) {
    s.Reserve(s.out_part, s.out.elements());
    return;
  }
  s.conv.window.out_pixel_stride = s.conv.columns;
  const int64_t block =
      s.is_depthwise ? s.out.w : Simd().convolution_block(s.conv.window);
  const int64_t blocks = kBlockFloats / (block * s.conv.columns);
  s.block_pixels =
      std::min(std::max<int64_t>(blocks, 1) * block, s.out.pixels());
  s.Reserve(s.out_part,
            RoundUpFloats(s.block_pixels * s.conv.columns) * s.num_threads);
}

absl::Status Pack(const ConvState& s, const void* from, void* to) {
  const auto* weight = static_cast<const float*>(from);
  std::vector<float> copy;
  PackWeight(s, RowMajor(s.weight, weight, copy), static_cast<float*>(to));
  return absl::OkStatus();
}

// The residual is read, tile by tile, before the result is written there.
uint32_t InplaceOf(const ConvState& s) {
  const bool may_share = s.residual_arg >= 0 && !s.stages_residual &&
                         !s.stages_out && s.groups == 1;
  return may_share ? 1u << s.residual_arg : 0;
}

Verdict PrepareConvolution(const KernelRequest& request) {
  auto state = std::make_shared<ConvState>();
  ConvState& s = *state;
  if (auto no = SetState(request, s)) return No{*no};
  SetThreads(request, s);
  if (s.stages_out) StageOut(s);
  s.zeros.assign(s.conv.window.channels + Simd().gemm_cols, 0.0f);
  s.is_packed = request.operands[Param::kWeight].is_frozen;
  if (!s.is_packed) {
    s.Reserve(s.weight_part, s.all_packed_floats());
    if (!s.weight.is_row_major()) {
      s.Reserve(s.plain_part, s.weight.num_elements());
    }
  }
  if (!s.is_depthwise) {
    s.Reserve(s.tables_part,
              AlignUp(Simd().convolution_scratch_bytes(s.conv.window)) /
                  kBytes * s.num_threads);
  }
  Prepared prepared;
  prepared.scratch_bytes = s.scratch_floats * kBytes;
  if (prepared.scratch_bytes > 0) s.scratch_arg = s.out_arg + 1;
  prepared.launch = LaunchConvolution;
  prepared.inplace_operands = InplaceOf(s);
  if (s.is_packed) {
    prepared.packs.push_back(
        {.operand = Param::kWeight,
         .bytes = s.all_packed_floats() * kBytes,
         .layout = absl::StrCat(s.is_depthwise ? "rows" : "panels", " of ",
                                s.weight.ToString(), " in ", s.groups),
         .pack = [state](const void* from, void* to) {
           return Pack(*state, from, to);
         }});
  }
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterConvolution(KernelRegistry& registry) {
  for (absl::string_view op : {"aten.convolution", "mica.convolution"}) {
    registry.Add({.op = std::string(op), .dtype = DType::kF32},
                 KernelRank::kFast, {"cpu.convolution", PrepareConvolution});
  }
}

}  // namespace mica::cpu
