#include "python/torch_side/recorder/composites.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/all.h>
#include <ATen/ops/channel_shuffle.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/max_pool1d_with_indices.h>
#include <ATen/ops/pixel_shuffle.h>
#include <ATen/ops/pixel_unshuffle.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "python/torch_side/tensors/torch_compat.h"

namespace mica {
namespace {

at::Tensor MaxPool1d(const at::Tensor& x, at::IntArrayRef kernel_size,
                     at::IntArrayRef stride, at::IntArrayRef padding,
                     at::IntArrayRef dilation, bool ceil_mode) {
  return std::get<0>(at::max_pool1d_with_indices(x, kernel_size, stride,
                                                 padding, dilation, ceil_mode));
}

// Moves elements of the last `num_dims` dims of `x`: views these as `parts`,
// puts the parts in `order` and views the result as `dims`.
at::Tensor Move(const at::Tensor& x, int64_t num_dims,
                const std::vector<int64_t>& parts,
                const std::vector<int64_t>& order,
                const std::vector<int64_t>& dims) {
  const auto batch = x.sizes().slice(0, x.dim() - num_dims);
  auto with_batch = [&](const std::vector<int64_t>& rest) {
    std::vector<int64_t> all = batch.vec();
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  };
  std::vector<int64_t> permutation;
  for (int64_t i = 0; i < x.dim() - num_dims; ++i) permutation.push_back(i);
  for (int64_t part : order) permutation.push_back(x.dim() - num_dims + part);
  return x.reshape(with_batch(parts))
      .permute(permutation)
      .clone(at::MemoryFormat::Contiguous)
      .view(with_batch(dims));
}

// Eager's result is row-major then, and nothing is wrong with the call.
bool IsPlain(const at::Tensor& x, int64_t divisor_of_channels) {
  return x.dim() >= 3 && x.layout() == at::kStrided && x.is_contiguous() &&
         x.suggest_memory_format() == at::MemoryFormat::Contiguous &&
         divisor_of_channels > 0 && x.numel() > 0 &&
         x.size(-3) % divisor_of_channels == 0;
}

at::Tensor PixelShuffle(const at::Tensor& x, int64_t r) {
  if (r <= 0 || r > 1 << 15 || !IsPlain(x, r * r)) {
    c10::impl::ExcludeDispatchKeyGuard exclude(kPartsKey);
    return at::pixel_shuffle(x, r);
  }
  const int64_t c = x.size(-3) / (r * r), h = x.size(-2), w = x.size(-1);
  return Move(x, 3, {c, r, r, h, w}, {0, 3, 1, 4, 2}, {c, h * r, w * r});
}

at::Tensor PixelUnshuffle(const at::Tensor& x, int64_t r) {
  if (r <= 0 || !IsPlain(x, 1) || x.size(-1) % r != 0 || x.size(-2) % r != 0) {
    c10::impl::ExcludeDispatchKeyGuard exclude(kPartsKey);
    return at::pixel_unshuffle(x, r);
  }
  const int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
  return Move(x, 3, {c, h, r, w, r}, {0, 2, 4, 1, 3}, {c * r * r, h, w});
}

at::Tensor ChannelShuffle(const at::Tensor& x, c10::SymInt groups) {
  const std::optional<int64_t> g = groups.maybe_as_int();
  if (!g.has_value() || x.dim() != 4 || !IsPlain(x, *g)) {
    c10::impl::ExcludeDispatchKeyGuard exclude(kPartsKey);
    return at::channel_shuffle_symint(x, std::move(groups));
  }
  const int64_t c = x.size(1), h = x.size(2), w = x.size(3);
  return Move(x, 3, {*g, c / *g, h, w}, {1, 0, 2, 3}, {c, h, w});
}

// A number that Python reads, of what is computed.
bool AllClose(const at::Tensor& a, const at::Tensor& b, double rtol,
              double atol, bool equal_nan) {
  return at::isclose(a, b, rtol, atol, equal_nan).all().item<bool>();
}

}  // namespace

absl::Status InstallComposites() {
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(
          kPartsKey)) {
    return absl::UnimplementedError(
        "capture: this torch uses the dispatch key of operators' parts itself");
  }
  static auto* fallback = new torch::Library(torch::Library::IMPL, "_",
                                             kPartsKey, __FILE__, __LINE__);
  fallback->fallback(torch::CppFunction::makeFallthrough());
  static auto* kernels = new torch::Library(torch::Library::IMPL, "aten",
                                            kPartsKey, __FILE__, __LINE__);
  kernels->impl("max_pool1d", MaxPool1d);
  kernels->impl("pixel_shuffle", PixelShuffle);
  kernels->impl("pixel_unshuffle", PixelUnshuffle);
  kernels->impl("channel_shuffle", ChannelShuffle);
  kernels->impl("allclose", AllClose);
  return absl::OkStatus();
}

}  // namespace mica
