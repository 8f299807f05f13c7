// Batch norm by the batch's own statistics, and its gradients.

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// [N, C, ...] as images, channels and pixels; nothing if the pixels don't lie
// at equal distances.
std::optional<ChannelLayout> LayoutOf(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  ChannelLayout layout = {.image_stride = strides[0],
                          .channel_stride = strides[1],
                          .pixel_stride = 1};
  int64_t next = -1;  // The stride that the next axis outwards must have.
  for (int i = type.rank() - 1; i >= 2; --i) {
    if (type.dims[i] == 1) continue;
    if (next < 0) {
      layout.pixel_stride = strides[i];
    } else if (strides[i] != next) {
      return std::nullopt;
    }
    next = strides[i] * type.dims[i];
  }
  return layout;
}

int64_t PixelsOf(const TensorType& type) {
  int64_t pixels = 1;
  for (int i = 2; i < type.rank(); ++i) pixels *= type.dims[i];
  return pixels;
}

// The dimension that all layouts have innermost.
std::optional<Innermost> ChooseInnermost(
    const TensorType& x, absl::Span<const ChannelLayout> layouts) {
  const int64_t pixels = PixelsOf(x);
  bool has_pixels = true, has_channels = true;
  for (const ChannelLayout& layout : layouts) {
    has_pixels = has_pixels && (pixels == 1 || layout.pixel_stride == 1);
    has_channels =
        has_channels && (x.dims[1] == 1 || layout.channel_stride == 1);
  }
  if (has_channels && (pixels == 1 || !has_pixels)) return Innermost::kChannels;
  if (has_pixels) return Innermost::kPixels;
  return std::nullopt;
}

// True if the value given for `param`, if any, is a dense list.
bool IsList(const KernelRequest& request, int param) {
  const int index = request.OperandIndex(param);
  return index < 0 || request.operands[index].type.is_row_major();
}

template <typename T>
T* At(void* const* args, int arg) {
  return arg < 0 ? nullptr : static_cast<T*>(args[arg]);
}

uint32_t InplaceBit(const KernelRequest& request, int operand) {
  const TensorType& type = request.operands[operand].type;
  const TensorType& result = request.results[0].type;
  return type.EffectiveStrides() == result.EffectiveStrides() ? 1u << operand
                                                              : 0;
}

struct NormState {
  BatchNormArgs args;  // Without addresses.
  int weight = -1, bias = -1, old_mean = -1, old_variance = -1;
  int out = 0;  // The first result.
  bool returns_running = false;
  int num_threads = 1;
};

bool LaunchNorm(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const NormState*>(state);
  BatchNormArgs call = s.args;
  call.x = At<const float>(args, 0);
  call.weight = At<const float>(args, s.weight);
  call.bias = At<const float>(args, s.bias);
  call.y = At<float>(args, s.out);
  call.mean = At<float>(args, s.out + 1);
  call.rstd = At<float>(args, s.out + 2);
  if (s.returns_running) {
    call.old_mean = At<const float>(args, s.old_mean);
    call.old_variance = At<const float>(args, s.old_variance);
    call.new_mean = At<float>(args, s.out + 3);
    call.new_variance = At<float>(args, s.out + 4);
  }
  Parallel(s.num_threads, call.channels, [&](int64_t begin, int64_t end) {
    Simd().training.batch_norm(call, begin, end);
  });
  return true;
}

Verdict PrepareNorm(const KernelRequest& request) {
  const TensorType& x = request.operands[0].type;
  const TensorType& y = request.results[0].type;
  if (!request.Bool(5)) return No{"is by running statistics"};
  if (x.num_elements() == 0) return No{"is empty"};
  for (int param = 1; param <= 4; ++param) {
    if (!IsList(request, param)) return No{"a list has gaps"};
  }
  const auto x_layout = LayoutOf(x), y_layout = LayoutOf(y);
  if (!x_layout.has_value() || !y_layout.has_value()) {
    return No{"pixels have gaps"};
  }
  const auto innermost =
      ChooseInnermost(x, std::array<ChannelLayout, 2>{*x_layout, *y_layout});
  if (!innermost.has_value()) return No{"neither pixels nor channels are last"};
  auto state = std::make_shared<NormState>();
  state->args = {.x_layout = *x_layout,
                 .y_layout = *y_layout,
                 .innermost = *innermost,
                 .images = x.dims[0],
                 .channels = x.dims[1],
                 .pixels = PixelsOf(x),
                 .momentum = request.Number(6),
                 .eps = request.Number(7)};
  state->weight = request.OperandIndex(1);
  state->bias = request.OperandIndex(2);
  state->old_mean = request.OperandIndex(3);
  state->old_variance = request.OperandIndex(4);
  state->out = static_cast<int>(request.operands.size());
  state->returns_running = request.results.size() == 5;
  state->num_threads = UsefulThreads(request.num_threads, x.num_elements());
  Prepared prepared;
  prepared.launch = LaunchNorm;
  prepared.inplace_operands = InplaceBit(request, 0);
  prepared.state = std::move(state);
  return prepared;
}

struct BackwardState {
  BatchNormBackwardArgs args;  // Without addresses.
  int weight = -1, mean = -1, rstd = -1;
  int results[3] = {-1, -1, -1};  // -1: not asked for.
  int num_threads = 1;
};

bool LaunchBackward(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const BackwardState*>(state);
  BatchNormBackwardArgs call = s.args;
  call.grad = At<const float>(args, 0);
  call.x = At<const float>(args, 1);
  call.weight = At<const float>(args, s.weight);
  call.mean = At<const float>(args, s.mean);
  call.rstd = At<const float>(args, s.rstd);
  call.grad_x = At<float>(args, s.results[0]);
  call.grad_weight = At<float>(args, s.results[1]);
  call.grad_bias = At<float>(args, s.results[2]);
  Parallel(s.num_threads, call.channels, [&](int64_t begin, int64_t end) {
    Simd().training.batch_norm_backward(call, begin, end);
  });
  return true;
}

Verdict PrepareBackward(const KernelRequest& request) {
  const TensorType& grad = request.operands[0].type;
  const TensorType& x = request.operands[1].type;
  const auto& mask = std::get<std::vector<bool>>((*request.arguments)[9]);
  if (!request.Bool(7)) return No{"is by running statistics"};
  if (x.num_elements() == 0) return No{"is empty"};
  for (int param : {2, 5, 6}) {
    if (!IsList(request, param)) return No{"a list has gaps"};
  }
  const auto grad_layout = LayoutOf(grad), x_layout = LayoutOf(x);
  const auto out_layout =
      mask[0] ? LayoutOf(request.results[0].type) : x_layout;
  if (!grad_layout.has_value() || !x_layout.has_value() ||
      !out_layout.has_value()) {
    return No{"pixels have gaps"};
  }
  const auto innermost = ChooseInnermost(
      x, std::array<ChannelLayout, 3>{*grad_layout, *x_layout, *out_layout});
  if (!innermost.has_value()) return No{"neither pixels nor channels are last"};
  auto state = std::make_shared<BackwardState>();
  state->args = {.grad_layout = *grad_layout,
                 .x_layout = *x_layout,
                 .grad_x_layout = *out_layout,
                 .innermost = *innermost,
                 .images = x.dims[0],
                 .channels = x.dims[1],
                 .pixels = PixelsOf(x)};
  state->weight = request.OperandIndex(2);
  state->mean = request.OperandIndex(5);
  state->rstd = request.OperandIndex(6);
  for (int i = 0; i < 3; ++i) {
    if (!mask[i]) continue;
    state->results[i] = static_cast<int>(request.operands.size()) + i;
  }
  state->num_threads = UsefulThreads(request.num_threads, x.num_elements());
  Prepared prepared;
  prepared.launch = LaunchBackward;
  // A channel's sums are complete before its gradient is written.
  if (mask[0]) {
    prepared.inplace_operands = InplaceBit(request, 0) | InplaceBit(request, 1);
  }
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterBatchNormTraining(KernelRegistry& registry) {
  for (const char* op :
       {"aten.native_batch_norm", "aten._native_batch_norm_legit_functional"}) {
    registry.Add({.op = op, .dtype = DType::kF32}, KernelRank::kFast,
                 {"cpu.batch_norm", PrepareNorm});
  }
  registry.Add({.op = "aten.native_batch_norm_backward", .dtype = DType::kF32},
               KernelRank::kFast, {"cpu.batch_norm_backward", PrepareBackward});
}

}  // namespace mica::cpu
