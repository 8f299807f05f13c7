// Gradients of a convolution, product by product.

#include <memory>
#include <utility>

#include "kernels/reference/accumulator.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

Dims Entries(absl::Span<const int64_t> list, int count) {
  if (list.size() == 1) return Dims(count, list[0]);
  return Dims(list.begin(), list.end());
}

struct State {
  Lane grad, x, weight;
  Lane grad_x, grad_weight, grad_bias;
  bool wants_x = false, wants_weight = false, wants_bias = false;
  Dims stride, padding, dilation;
  bool is_transposed = false;
  int64_t groups = 1;
  Dims kernel;  // Dims of the window.
};

// Sets `pixel` to the pixel of x that output pixel `place` sees through the
// window's `tap`; false if there is none.
bool FindPixel(const State& state, absl::Span<const int64_t> place,
               absl::Span<const int64_t> tap, Dims& pixel) {
  for (size_t i = 0; i < tap.size(); ++i) {
    const int64_t reach = tap[i] * state.dilation[i];
    int64_t at = 0;
    if (state.is_transposed) {
      const int64_t spread = place[i] + state.padding[i] - reach;
      if (spread < 0 || spread % state.stride[i] != 0) return false;
      at = spread / state.stride[i];
    } else {
      at = place[i] * state.stride[i] - state.padding[i] + reach;
    }
    if (at < 0 || at >= state.x.dims[i + 2]) return false;
    pixel[i + 2] = at;
  }
  return true;
}

int64_t OffsetOf(absl::Span<const int64_t> index, const Dims& strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
  return offset;
}

// Calls visit(pixel index of x, index of the weight) for each product that
// output element `out` is a sum of.
template <typename Visit>
void ForEachProduct(const State& state, absl::Span<const int64_t> out,
                    Visit&& visit) {
  const int64_t in_per_group = state.x.dims[1] / state.groups;
  const int64_t out_per_group = state.grad.dims[1] / state.groups;
  const int64_t group = out[1] / out_per_group;
  Dims pixel(state.x.rank()), tap(state.x.rank());
  pixel[0] = out[0];
  for (Odometer at(state.kernel, {}); !at.done(); at.Next()) {
    if (!FindPixel(state, out.subspan(2), at.index(), pixel)) continue;
    std::copy(at.index().begin(), at.index().end(), tap.begin() + 2);
    for (int64_t c = 0; c < in_per_group; ++c) {
      pixel[1] = group * in_per_group + c;
      // weight is [out, in/groups, ...], or [in, out/groups, ...] transposed.
      tap[0] = state.is_transposed ? pixel[1] : out[1];
      tap[1] = state.is_transposed ? out[1] % out_per_group : c;
      visit(pixel, tap);
    }
  }
}

bool Run(const State& state, void* const* args) {
  const Lane nothing = {.dims = {0}};
  Accumulator grad_x(state.wants_x ? state.grad_x : nothing);
  Accumulator grad_weight(state.wants_weight ? state.grad_weight : nothing);
  Accumulator grad_bias(state.wants_bias ? state.grad_bias : nothing);
  for (Odometer at(state.grad.dims, {state.grad.strides}); !at.done();
       at.Next()) {
    const double g = state.grad.Load<double>(args, at.offset(0));
    if (state.wants_bias) grad_bias.Add(at.index()[1], g);
    if (!state.wants_x && !state.wants_weight) continue;
    ForEachProduct(state, at.index(), [&](const Dims& pixel, const Dims& tap) {
      if (state.wants_x) {
        const int64_t w = OffsetOf(tap, state.weight.strides);
        grad_x.Add(OffsetOf(pixel, grad_x.strides()),
                   g * state.weight.Load<double>(args, w));
      }
      if (state.wants_weight) {
        const int64_t x = OffsetOf(pixel, state.x.strides);
        grad_weight.Add(OffsetOf(tap, grad_weight.strides()),
                        g * state.x.Load<double>(args, x));
      }
    });
  }
  if (state.wants_x) grad_x.Store(args);
  if (state.wants_weight) grad_weight.Store(args);
  if (state.wants_bias) grad_bias.Store(args);
  return true;
}

Verdict PrepareConvolutionBackward(const KernelRequest& request) {
  State state = {.grad = OperandLane(request, 0),
                 .x = OperandLane(request, 1),
                 .weight = OperandLane(request, 2),
                 .grad_x = ResultLane(request, 0),
                 .grad_weight = ResultLane(request, 1),
                 .grad_bias = ResultLane(request, 2)};
  const std::vector<bool>& mask = OutputMask(request, 10);
  state.wants_x = mask[0];
  state.wants_weight = mask[1];
  state.wants_bias = mask[2];
  const int axes = state.x.rank() - 2;
  state.stride = Entries(request.Ints(4), axes);
  state.padding = Entries(request.Ints(5), axes);
  state.dilation = Entries(request.Ints(6), axes);
  state.is_transposed = request.Bool(7);
  state.groups = request.Int(9);
  state.kernel.assign(state.weight.dims.begin() + 2, state.weight.dims.end());
  return RunBody([state = std::move(state)](void* const* args, LaunchContext&) {
    return Run(state, args);
  });
}

}  // namespace

void RegisterReferenceConvBackward(KernelRegistry& registry) {
  AddReference(registry, "aten.convolution_backward",
               PrepareConvolutionBackward);
}

}  // namespace mica
