#include "python/torch_side/autograd/backward_trace.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "python/torch_side/autograd/backward_tracer.h"
#include "python/torch_side/tensors/kept_casts.h"

namespace mica {

std::pair<BackwardTrace, std::string> TraceBackward(
    absl::Span<PyObject* const> results, absl::Span<PyObject* const> externals,
    uint64_t first_node, const BackwardUse& use, Recorder* recorder,
    absl::FunctionRef<void()> on_python) {
  BackwardTrace trace;
  const c10::AutoGradMode no_grad(false);
  // As outside of autocast, where a backward pass belongs.
  const OutsideAutocast no_autocast;
  const absl::Cleanup stop = [recorder] { recorder->Stop(); };
  try {
    BackwardTracer tracer(results, externals, first_node, recorder);
    if (std::string why = tracer.Explore(); !why.empty()) {
      return {std::move(trace), std::move(why)};
    }
    std::vector<at::Tensor> roots;
    for (size_t i = 0; i < results.size(); ++i) {
      const at::Tensor& result = THPVariable_Unpack(results[i]);
      // In eager nobody may write to it, whether or not the leaf, maybe a view
      // itself, is the base.
      if (result.is_view() && result._base().is_leaf() &&
          result.requires_grad() &&
          recorder->HasMade(
              PyRef::Steal(THPVariable_Wrap(result._base())).get())) {
        return {std::move(trace), "is a view of a leaf that it made itself"};
      }
      const auto sizes = result.sizes();
      const auto strides =
          use.LayoutOf(static_cast<int>(i), {sizes.data(), sizes.size()});
      roots.push_back(
          strides.has_value()
              ? at::empty_strided(sizes, *strides, result.options()).fill_(1)
              : at::ones_like(result, {}, at::MemoryFormat::Preserve));
    }
    if (tracer.has_python()) on_python();
    tracer.Run(roots);
    trace = tracer.Take();
  } catch (const std::exception& error) {
    std::string why = error.what();
    return {std::move(trace), absl::StrCat("can't be gone back from: ",
                                           why.substr(0, why.find('\n')))};
  }
  return {std::move(trace), ""};
}

}  // namespace mica
