#include "python/torch_side/tensors/kept_casts.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include <exception>

#include "absl/cleanup/cleanup.h"
#include "python/torch_side/tensors/looks_only.h"
#include "python/torch_side/tensors/torch_compat.h"

namespace mica {
namespace {

namespace autocast = at::autocast;

// What torch's own condition for keeping a cast says of the weight.
bool IsKeptOf(const at::Tensor& weight) {
  return weight.scalar_type() == at::kFloat && weight.device().is_cpu() &&
         weight.requires_grad() && weight.is_leaf() && !weight.is_view();
}

// As the operator did whose operand it was: in the run's own blocks the dtype
// and the modes may be others than around it.
at::Tensor CastOf(const at::Tensor& weight, const TensorMeta& like) {
  const auto dtype = static_cast<at::ScalarType>(like.dtype);
  const at::ScalarType dtype_before = autocast::get_autocast_dtype(at::kCPU);
  const bool was_enabled = autocast::is_autocast_cache_enabled();
  const absl::Cleanup put_back = [&] {
    autocast::set_autocast_dtype(at::kCPU, dtype_before);
    autocast::set_autocast_cache_enabled(was_enabled);
  };
  autocast::set_autocast_dtype(at::kCPU, dtype);
  autocast::set_autocast_cache_enabled(true);
  const c10::AutoGradMode tracks(like.requires_grad);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      c10::DispatchKey::AutocastCPU);
  return autocast::cached_cast(dtype, weight, at::kCPU);
}

PyRef Wrapped(const at::Tensor& cast, const TensorMeta& like) {
  if (!cast.defined() || !like.Matches(*cast.unsafeGetTensorImpl())) return {};
  return PyRef::Steal(THPVariable_Wrap(cast));
}

}  // namespace

bool IsAutocastBlockOpen() {
  const int depth = autocast::increment_nesting() - 1;
  autocast::decrement_nesting();
  return depth > 0;
}

OutsideAutocast::OutsideAutocast()
    : was_on_(autocast::is_autocast_enabled(at::kCPU)),
      kept_casts_(autocast::is_autocast_cache_enabled()),
      dtype_(static_cast<int8_t>(autocast::get_autocast_dtype(at::kCPU))),
      depth_(autocast::increment_nesting() - 1) {
  autocast::set_autocast_enabled(at::kCPU, false);
  autocast::set_autocast_cache_enabled(true);
  autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  while (autocast::decrement_nesting() > 0) {
  }
}

OutsideAutocast::~OutsideAutocast() {
  for (int i = 0; i < depth_; ++i) autocast::increment_nesting();
  autocast::set_autocast_dtype(at::kCPU, static_cast<at::ScalarType>(dtype_));
  autocast::set_autocast_cache_enabled(kept_casts_);
  autocast::set_autocast_enabled(at::kCPU, was_on_);
}

bool AreCastsKept() {
  return autocast::is_autocast_enabled(at::kCPU) || IsAutocastBlockOpen();
}

PyRef KeptCast(PyObject* weight, const TensorMeta& like) {
  const at::Tensor& own = THPVariable_Unpack(weight);
  if (!IsKeptOf(own)) return {};
  try {
    return Wrapped(CastOf(own, like), like);
  } catch (const std::exception&) {
    return {};
  }
}

PyRef FindKeptCast(PyObject* weight, const TensorMeta& like) {
  const at::Tensor& own = THPVariable_Unpack(weight);
  if (!IsKeptOf(own)) return {};
  const LooksOnly no_operators;
  try {
    return Wrapped(CastOf(own, like), like);
  } catch (const LooksOnly::Called&) {
    return {};
  }
}

}  // namespace mica
