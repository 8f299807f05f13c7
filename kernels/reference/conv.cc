// Convolution and pooling, window by window.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/activation.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// A list parameter with one entry for each of `count` axes.
Dims Entries(absl::Span<const int64_t> list, int count) {
  if (list.size() == 1) return Dims(count, list[0]);
  return Dims(list.begin(), list.end());
}

struct ConvState {
  Lane x, weight, bias, residual, scale, shift, out;
  bool has_residual = false;
  bool is_scaled = false;
  std::string activation = "none";
  bool has_bias = false;
  bool is_transposed = false;
  Dims stride, padding, dilation;
  int64_t groups = 1;
  // Dims of the kernel's window and its strides in `weight`.
  Dims kernel, kernel_strides;
};

// The offset in x of the pixel that output pixel `place` (index 2 on) sees
// through the kernel's `tap`; -1 if there is none.
int64_t PixelOf(const ConvState& state, absl::Span<const int64_t> place,
                absl::Span<const int64_t> tap) {
  int64_t offset = 0;
  for (size_t i = 0; i < tap.size(); ++i) {
    const int64_t reach = tap[i] * state.dilation[i];
    int64_t at = 0;
    if (state.is_transposed) {
      const int64_t spread = place[i] + state.padding[i] - reach;
      if (spread < 0 || spread % state.stride[i] != 0) return -1;
      at = spread / state.stride[i];
    } else {
      at = place[i] * state.stride[i] - state.padding[i] + reach;
    }
    if (at < 0 || at >= state.x.dims[i + 2]) return -1;
    offset += at * state.x.strides[i + 2];
  }
  return offset;
}

double ConvolvedAt(const ConvState& state, void* const* args,
                   absl::Span<const int64_t> index) {
  const int64_t in_per_group = state.x.dims[1] / state.groups;
  const int64_t out_per_group = state.out.dims[1] / state.groups;
  const int64_t group = index[1] / out_per_group;
  double sum = state.has_bias ? state.bias.Load<double>(
                                    args, index[1] * state.bias.strides[0])
                              : 0;
  for (Odometer tap(state.kernel, {state.kernel_strides}); !tap.done();
       tap.Next()) {
    const int64_t pixel = PixelOf(state, index.subspan(2), tap.index());
    if (pixel < 0) continue;
    for (int64_t c = 0; c < in_per_group; ++c) {
      const int64_t in = group * in_per_group + c;
      // weight is [out, in/groups, ...], or [in, out/groups, ...] transposed.
      const int64_t w =
          state.is_transposed
              ? in * state.weight.strides[0] +
                    index[1] % out_per_group * state.weight.strides[1]
              : index[1] * state.weight.strides[0] +
                    c * state.weight.strides[1];
      sum += state.x.Load<double>(args, index[0] * state.x.strides[0] +
                                            in * state.x.strides[1] + pixel) *
             state.weight.Load<double>(args, w + tap.offset(0));
    }
  }
  return sum;
}

Verdict PrepareConvolution(const KernelRequest& request) {
  ConvState state = {.x = OperandLane(request, 0),
                     .weight = OperandLane(request, 1),
                     .out = ResultLane(request)};
  const int axes = state.x.rank() - 2;
  state.has_bias = request.Has(2);
  if (state.has_bias) state.bias = OperandLane(request, 2);
  if (request.arguments->size() > 9) {  // mica.convolution.
    state.has_residual = request.Has(9);
    if (state.has_residual) state.residual = OperandLane(request, 9);
    state.activation = request.String(10);
  }
  if (request.arguments->size() > 11) {  // mica.scaled_convolution.
    state.is_scaled = true;
    state.scale = OperandLane(request, 11);
    state.shift = OperandLane(request, 12);
  }
  state.stride = Entries(request.Ints(3), axes);
  state.padding = Entries(request.Ints(4), axes);
  state.dilation = Entries(request.Ints(5), axes);
  state.is_transposed = request.Bool(6);
  state.groups = request.Int(8);
  state.kernel.assign(state.weight.dims.begin() + 2, state.weight.dims.end());
  state.kernel_strides.assign(state.weight.strides.begin() + 2,
                              state.weight.strides.end());
  return RunBody([state](void* const* args, LaunchContext&) {
    if (state.out.IsUnused(args)) return true;
    const Dims& residual =
        state.has_residual ? state.residual.strides : state.out.strides;
    for (Odometer at(state.out.dims, {state.out.strides, residual}); !at.done();
         at.Next()) {
      double sum = ConvolvedAt(state, args, at.index());
      if (state.is_scaled) {
        const int64_t channel = at.index()[1];
        sum = sum * state.scale.Load<double>(args,
                                             channel * state.scale.strides[0]) +
              state.shift.Load<double>(args, channel * state.shift.strides[0]);
      }
      if (state.has_residual) {
        sum += state.residual.Load<double>(args, at.offset(1));
      }
      state.out.Store(args, at.offset(0), Activated(state.activation, sum));
    }
    return true;
  });
}

// Planes of the operand and of the result: the last two axes apart.
struct PoolState {
  Lane in, out;
  Dims kernel, stride, padding, dilation;
};

PoolState MakePool(const KernelRequest& request) {
  PoolState state = {.in = OperandLane(request, 0), .out = ResultLane(request)};
  state.kernel = Entries(request.Ints(1), 2);
  state.stride =
      request.Ints(2).empty() ? state.kernel : Entries(request.Ints(2), 2);
  state.padding = Entries(request.Ints(3), 2);
  state.dilation = Dims(2, 1);
  return state;
}

// The offset of the plane that an index of the result lies in.
int64_t PlaneOf(const Lane& lane, absl::Span<const int64_t> index) {
  int64_t offset = 0;
  for (int i = 0; i + 2 < lane.rank(); ++i) {
    offset += index[i] * lane.strides[i];
  }
  return offset;
}

// Calls `visit(row, column)` for each pixel of a window inside the plane.
template <typename Visit>
void ForEachPixel(const PoolState& state, int64_t out_row, int64_t out_column,
                  Visit&& visit) {
  const int rank = state.in.rank();
  for (int64_t i = 0; i < state.kernel[0]; ++i) {
    const int64_t row =
        out_row * state.stride[0] - state.padding[0] + i * state.dilation[0];
    if (row < 0 || row >= state.in.dims[rank - 2]) continue;
    for (int64_t j = 0; j < state.kernel[1]; ++j) {
      const int64_t column = out_column * state.stride[1] - state.padding[1] +
                             j * state.dilation[1];
      if (column < 0 || column >= state.in.dims[rank - 1]) continue;
      visit(row, column);
    }
  }
}

Verdict PrepareMaxPool(const KernelRequest& request) {
  PoolState state = MakePool(request);
  state.dilation = Entries(request.Ints(4), 2);
  const Lane indices = ResultLane(request, 1);
  return RunBody([=](void* const* args, LaunchContext&) {
    const int rank = state.in.rank();
    const Dims& strides = state.in.strides;
    for (Odometer at(state.out.dims, {state.out.strides, indices.strides});
         !at.done(); at.Next()) {
      const int64_t plane = PlaneOf(state.in, at.index());
      double best = -std::numeric_limits<double>::infinity();
      int64_t place = -1;
      ForEachPixel(state, at.index()[rank - 2], at.index()[rank - 1],
                   [&](int64_t row, int64_t column) {
                     const double x = state.in.Load<double>(
                         args, plane + row * strides[rank - 2] +
                                   column * strides[rank - 1]);
                     if (place >= 0 && !(x > best) && !IsNan(x)) return;
                     best = x;
                     place = row * state.in.dims[rank - 1] + column;
                   });
      if (!state.out.IsUnused(args)) {
        state.out.Store(args, at.offset(0), best);
      }
      if (!indices.IsUnused(args)) indices.Store(args, at.offset(1), place);
    }
    return true;
  });
}

// Pixels of the window counted with the padding, but not beyond it.
int64_t PaddedCount(const PoolState& state, int64_t row, int64_t column) {
  const int rank = state.in.rank();
  int64_t count = 1;
  for (int i = 0; i < 2; ++i) {
    const int64_t start =
        (i == 0 ? row : column) * state.stride[i] - state.padding[i];
    const int64_t end =
        std::min(start + state.kernel[i],
                 state.in.dims[rank - 2 + i] + state.padding[i]);
    count *= end - start;
  }
  return count;
}

Verdict PrepareAveragePool(const KernelRequest& request) {
  const PoolState state = MakePool(request);
  const bool counts_padding = request.Bool(5);
  const int64_t divisor = request.Has(6) ? request.Int(6) : 0;
  return RunBody([=](void* const* args, LaunchContext&) {
    if (state.out.IsUnused(args)) return true;
    const int rank = state.in.rank();
    const Dims& strides = state.in.strides;
    for (Odometer at(state.out.dims, {state.out.strides}); !at.done();
         at.Next()) {
      const int64_t plane = PlaneOf(state.in, at.index());
      const int64_t row = at.index()[rank - 2];
      const int64_t column = at.index()[rank - 1];
      double sum = 0;
      int64_t count = 0;
      ForEachPixel(state, row, column, [&](int64_t i, int64_t j) {
        sum += state.in.Load<double>(
            args, plane + i * strides[rank - 2] + j * strides[rank - 1]);
        ++count;
      });
      if (counts_padding) count = PaddedCount(state, row, column);
      if (divisor != 0) count = divisor;
      state.out.Store(args, at.offset(0), sum / static_cast<double>(count));
    }
    return true;
  });
}

Verdict PrepareAdaptivePool(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    const int rank = in.rank();
    // Part i of n: from floor(i·size/n) up to ceil((i+1)·size/n).
    auto part = [&](int axis, int64_t i) {
      const int64_t size = in.dims[axis];
      const int64_t parts = out.dims[axis];
      return std::pair(i * size / parts, ((i + 1) * size + parts - 1) / parts);
    };
    for (Odometer at(out.dims, {out.strides}); !at.done(); at.Next()) {
      const auto [top, bottom] = part(rank - 2, at.index()[rank - 2]);
      const auto [left, right] = part(rank - 1, at.index()[rank - 1]);
      double sum = 0;
      for (int64_t i = top; i < bottom; ++i) {
        for (int64_t j = left; j < right; ++j) {
          sum += in.Load<double>(args, PlaneOf(in, at.index()) +
                                           i * in.strides[rank - 2] +
                                           j * in.strides[rank - 1]);
        }
      }
      out.Store(args, at.offset(0),
                sum / static_cast<double>((bottom - top) * (right - left)));
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceConv(KernelRegistry& registry) {
  AddReference(registry, "aten.convolution", PrepareConvolution);
  AddReference(registry, "mica.convolution", PrepareConvolution);
  AddReference(registry, "mica.scaled_convolution", PrepareConvolution);
  AddReference(registry, "aten.max_pool2d_with_indices", PrepareMaxPool);
  AddReference(registry, "aten.avg_pool2d", PrepareAveragePool);
  AddReference(registry, "aten._adaptive_avg_pool2d", PrepareAdaptivePool);
}

}  // namespace mica
