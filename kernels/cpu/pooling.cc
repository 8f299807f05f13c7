// Pooling of images whose channels are last; others go through a copy.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/image.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

constexpr int64_t kBytes = sizeof(float);

struct PoolState {
  WindowArgs window;  // But for addresses, begin and end.
  bool is_max = false;
  float scale = 1;
  // How many taps are counted in a row's or a column's window, by row and
  // column of the result; empty if all are alike, and in `scale`.
  std::vector<float> row_taps, col_taps;
  Image x, staged_x, out, staged_out;
  bool stages_x = false, stages_out = false;
  int64_t out_part = 0;  // Of the scratch memory, in floats.
  int out_arg = 1, scratch_arg = -1;
  int num_threads = 1;
};

// Sums to means, where windows have several sizes.
void DivideByTaps(const PoolState& s, const WindowArgs& part) {
  for (int64_t pixel = part.begin; pixel < part.end; ++pixel) {
    const int64_t col = pixel % part.out_cols;
    const int64_t row = pixel / part.out_cols % part.out_rows;
    const float taps = s.row_taps[row] * s.col_taps[col];
    float* out = part.out + pixel * part.out_pixel_stride;
    for (int64_t i = 0; i < part.channels; ++i) out[i] /= taps;
  }
}

bool LaunchPool(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const PoolState*>(state);
  auto* scratch =
      static_cast<float*>(s.scratch_arg < 0 ? nullptr : args[s.scratch_arg]);
  WindowArgs window = s.window;
  window.x = static_cast<const float*>(args[0]);
  if (s.stages_x) {
    CopyImage(window.x, s.x, scratch, s.staged_x);
    window.x = scratch;
  }
  auto* out = static_cast<float*>(args[s.out_arg]);
  window.out = s.stages_out ? scratch + s.out_part : out;
  Parallel(s.num_threads, s.out.pixels(), [&](int64_t begin, int64_t end) {
    WindowArgs part = window;
    part.begin = begin;
    part.end = end;
    s.is_max ? Simd().max_window(part) : Simd().sum_window(part, s.scale);
    if (!s.row_taps.empty()) DivideByTaps(s, part);
  });
  if (s.stages_out) CopyImage(window.out, s.staged_out, out, s.out);
  return true;
}

int64_t Entry(absl::Span<const int64_t> list, int i) {
  return list.size() == 1 ? list[0] : list[i];
}

// A tensor of rank 3 is one image here.
Image PlanesOf(TensorType type) {
  if (type.rank() == 3) {
    Dims strides = type.EffectiveStrides();
    strides.insert(strides.begin(), 0);
    type.dims.insert(type.dims.begin(), 1);
    type.strides = strides;
  }
  return ImageOf(type);
}

std::optional<std::string> SetImages(const KernelRequest& request,
                                     PoolState& s) {
  const TensorType& x = request.operands[0].type;
  const TensorType& out = request.results[0].type;
  if (out.num_elements() == 0 || x.num_elements() == 0) return "is empty";
  s.x = PlanesOf(x);
  s.out = PlanesOf(out);
  WindowArgs& w = s.window;
  w.in_rows = s.x.h;
  w.in_cols = s.x.w;
  w.out_rows = s.out.h;
  w.out_cols = s.out.w;
  w.channels = s.x.c;
  return std::nullopt;
}

// kernel_size, stride and padding at 1, 2, 3.
void SetWindow(const KernelRequest& request, PoolState& s) {
  WindowArgs& w = s.window;
  const auto kernel = request.Ints(1);
  const auto stride = request.Ints(2).empty() ? kernel : request.Ints(2);
  w.kernel_rows = Entry(kernel, 0);
  w.kernel_cols = Entry(kernel, 1);
  w.row_step = Entry(stride, 0);
  w.col_step = Entry(stride, 1);
  w.row_padding = Entry(request.Ints(3), 0);
  w.col_padding = Entry(request.Ints(3), 1);
}

Prepared Finish(const KernelRequest& request,
                std::shared_ptr<PoolState> state) {
  PoolState& s = *state;
  s.stages_x = !s.x.HasChannelsLast();
  s.staged_x = s.stages_x ? PixelMajor(s.x.n, s.x.c, s.x.h, s.x.w) : s.x;
  const std::optional<int64_t> stride = s.out.PixelStride();
  s.stages_out = !stride.has_value();
  s.staged_out = PixelMajor(s.out.n, s.out.c, s.out.h, s.out.w);
  s.window.out_pixel_stride = stride.value_or(s.out.c);
  s.window.x_image_stride = s.staged_x.n_stride;
  s.window.x_row_stride = s.staged_x.h_stride;
  s.window.x_col_stride = s.staged_x.w_stride;
  s.out_part = s.stages_x ? AlignUp(s.x.elements() * kBytes) / kBytes : 0;
  const int64_t floats = s.out_part + (s.stages_out ? s.out.elements() : 0);
  s.num_threads = UsefulThreads(request.num_threads, s.x.elements());
  Prepared prepared;
  prepared.scratch_bytes = floats * kBytes;
  if (floats > 0) {
    s.scratch_arg = s.out_arg + static_cast<int>(request.results.size());
  }
  prepared.launch = LaunchPool;
  prepared.state = std::move(state);
  return prepared;
}

Verdict PrepareMaxPool(const KernelRequest& request) {
  if (request.results[1].is_used) return No{"the places are asked for"};
  auto state = std::make_shared<PoolState>();
  if (auto no = SetImages(request, *state)) return No{*no};
  SetWindow(request, *state);
  state->is_max = true;
  state->window.row_dilation = Entry(request.Ints(4), 0);
  state->window.col_dilation = Entry(request.Ints(4), 1);
  return Finish(request, std::move(state));
}

// True if some window has fewer taps than others, padding counted or not.
bool HasRagged(const WindowArgs& w, bool counts_padding) {
  auto reaches = [](int64_t places, int64_t step, int64_t taps, int64_t padding,
                    int64_t size) {
    return (places - 1) * step - padding + taps > size;
  };
  if (!counts_padding && (w.row_padding > 0 || w.col_padding > 0)) return true;
  return reaches(w.out_rows, w.row_step, w.kernel_rows, w.row_padding,
                 w.in_rows + (counts_padding ? w.row_padding : 0)) ||
         reaches(w.out_cols, w.col_step, w.kernel_cols, w.col_padding,
                 w.in_cols + (counts_padding ? w.col_padding : 0));
}

// How many taps of each window along one axis are counted, 1 at least.
std::vector<float> CountTaps(int64_t places, int64_t step, int64_t taps,
                             int64_t padding, int64_t size,
                             bool counts_padding) {
  std::vector<float> counts;
  for (int64_t i = 0; i < places; ++i) {
    const int64_t first = i * step - padding;
    int64_t begin = first, end = std::min(first + taps, size + padding);
    if (!counts_padding) {
      begin = std::max<int64_t>(begin, 0);
      end = std::min(end, size);
    }
    counts.push_back(static_cast<float>(std::max<int64_t>(end - begin, 1)));
  }
  return counts;
}

Verdict PrepareAveragePool(const KernelRequest& request) {
  auto state = std::make_shared<PoolState>();
  if (auto no = SetImages(request, *state)) return No{*no};
  SetWindow(request, *state);
  const WindowArgs& w = state->window;
  int64_t divisor = w.kernel_rows * w.kernel_cols;
  if (request.Has(6)) {
    divisor = request.Int(6);
  } else if (const bool counts = request.Bool(5); HasRagged(w, counts)) {
    divisor = 1;
    state->row_taps = CountTaps(w.out_rows, w.row_step, w.kernel_rows,
                                w.row_padding, w.in_rows, counts);
    state->col_taps = CountTaps(w.out_cols, w.col_step, w.kernel_cols,
                                w.col_padding, w.in_cols, counts);
  }
  state->scale = static_cast<float>(1.0 / static_cast<double>(divisor));
  return Finish(request, std::move(state));
}

Verdict PrepareAdaptivePool(const KernelRequest& request) {
  auto state = std::make_shared<PoolState>();
  PoolState& s = *state;
  if (auto no = SetImages(request, s)) return No{*no};
  WindowArgs& w = s.window;
  if (w.in_rows % w.out_rows != 0 || w.in_cols % w.out_cols != 0) {
    return No{"windows of several sizes"};
  }
  w.kernel_rows = w.row_step = w.in_rows / w.out_rows;
  w.kernel_cols = w.col_step = w.in_cols / w.out_cols;
  s.scale = static_cast<float>(
      1.0 / static_cast<double>(w.kernel_rows * w.kernel_cols));
  return Finish(request, std::move(state));
}

}  // namespace

void RegisterPooling(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  registry.Add("aten.max_pool2d_with_indices", kFloat, KernelRank::kFast,
               {"cpu.max_pool", PrepareMaxPool});
  registry.Add("aten.avg_pool2d", kFloat, KernelRank::kFast,
               {"cpu.avg_pool", PrepareAveragePool});
  registry.Add("aten._adaptive_avg_pool2d", kFloat, KernelRank::kFast,
               {"cpu.avg_pool", PrepareAdaptivePool});
}

}  // namespace mica::cpu
