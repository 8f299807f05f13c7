#include "python/capture/composites.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/max_pool1d_with_indices.h>
#include <torch/library.h>

#include <tuple>

#include "python/capture/torch_compat.h"

namespace mica {
namespace {

at::Tensor MaxPool1d(const at::Tensor& x, at::IntArrayRef kernel_size,
                     at::IntArrayRef stride, at::IntArrayRef padding,
                     at::IntArrayRef dilation, bool ceil_mode) {
  return std::get<0>(at::max_pool1d_with_indices(x, kernel_size, stride,
                                                 padding, dilation, ceil_mode));
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
  return absl::OkStatus();
}

}  // namespace mica
