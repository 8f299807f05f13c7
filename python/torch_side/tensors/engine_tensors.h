// torch tensors as the engine's views, and new torch tensors for results.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_ENGINE_TENSORS_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_ENGINE_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/tensor/tensor.h"

namespace mica {

// The engine's dtype; nothing for one that it doesn't have.
std::optional<DType> ToDType(c10::ScalarType type);
c10::ScalarType ToScalarType(DType dtype);

// The engine's type of a dense CPU tensor. InvalidArgument, beginning with
// `what`, for one that the engine can't read: sparse, quantised, on another
// device, conjugated, of a subclass.
absl::StatusOr<TensorType> TypeOfTensor(absl::string_view what,
                                        const at::Tensor& tensor);

// A view of the tensor's memory, valid as long as the tensor.
absl::StatusOr<TensorView> ViewOfTensor(absl::string_view what,
                                        const at::Tensor& tensor);

// A new tensor of torch's allocator, with undefined contents.
at::Tensor NewTensorOf(const TensorType& type);

// A copy in memory of torch's own.
at::Tensor CopyToTorch(const Tensor& tensor);

// A tensor over memory that must outlive it.
at::Tensor BorrowedTensor(void* data, const TensorType& type);

// torch's lazy bits: a tensor says the conjugates, or the negatives, of the
// elements in its memory.
struct LazyBits {
  bool conj = false;  // Of complex tensors only.
  bool neg = false;
};
// A view with these bits changed.
at::Tensor WithLazyBits(const at::Tensor& tensor, LazyBits toggled);
// A view without them: what memory holds.
at::Tensor Stored(const at::Tensor& tensor);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_ENGINE_TENSORS_H_
