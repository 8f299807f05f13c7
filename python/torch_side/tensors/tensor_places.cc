// Where a tensor holds what tells its kind.

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>

#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// Fields of a TensorImpl that nobody else gets the places of.
struct ImplFields : at::TensorImpl {
  static const c10::Storage* storage(const at::TensorImpl& impl) {
    return &(impl.*&ImplFields::storage_);
  }
  static const c10::impl::SizesAndStrides* sizes(const at::TensorImpl& impl) {
    return &(impl.*&ImplFields::sizes_and_strides_);
  }
  static const caffe2::TypeMeta* dtype(const at::TensorImpl& impl) {
    return &(impl.*&ImplFields::data_type_);
  }
  static const c10::DispatchKeySet* key_set(const at::TensorImpl& impl) {
    return &(impl.*&ImplFields::key_set_);
  }
};

// The aligned 8 bytes that this lies in.
const void* WordOf(const void* at) {
  return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(at) &
                                       ~uintptr_t{7});
}

// Where autograd's part of a tensor is held: behind the storage. Null if not.
const void* AutogradPlace(const at::TensorImpl& impl) {
  const void* at = ImplFields::storage(impl) + 1;
  c10::AutogradMetaInterface* held;
  std::memcpy(&held, at, sizeof(held));
  return held == impl.autograd_meta() ? at : nullptr;
}

}  // namespace

std::vector<const void*> TensorMeta::Places(PyObject* tensor) {
  const at::TensorImpl* impl = THPVariable_Unpack(tensor).unsafeGetTensorImpl();
  const void* autograd_place = AutogradPlace(*impl);
  if (autograd_place == nullptr || impl->layout() != c10::kStrided) return {};
  const auto* autograd =
      dynamic_cast<torch::autograd::AutogradMeta*>(impl->autograd_meta());
  if (autograd == nullptr && impl->autograd_meta() != nullptr) return {};
  std::vector<const void*> places = {&THPVariable_Unpack(tensor),
                                     autograd_place};
  if (autograd != nullptr) {
    places.push_back(WordOf(&autograd->requires_grad_));
    if (!autograd->requires_grad_) places.push_back(&autograd->grad_fn_);
  }
  const c10::impl::SizesAndStrides* form = ImplFields::sizes(*impl);
  const auto sizes = impl->sizes();
  // The number of dims; behind it the sizes, or where they are.
  const void* sizes_place = reinterpret_cast<const char*>(form) + 8;
  places.push_back(form);
  if (sizes.data() != sizes_place) places.push_back(sizes_place);
  // A flag says that a tensor is contiguous, which says all of its strides but
  // of dims of one element, or none.
  const bool has_known_strides =
      impl->is_contiguous() &&
      std::all_of(sizes.begin(), sizes.end(), [](int64_t n) { return n > 1; });
  for (size_t i = 0; i < sizes.size(); ++i) {
    places.push_back(&sizes[i]);
    if (!has_known_strides) places.push_back(&impl->strides()[i]);
  }
  // The dtype, the device, flags and policies lie in a row.
  const auto* end = reinterpret_cast<const char*>(ImplFields::key_set(*impl));
  const auto* at = static_cast<const char*>(WordOf(ImplFields::dtype(*impl)));
  for (; at <= end; at += 8) places.push_back(at);
  return places;
}

}  // namespace mica
