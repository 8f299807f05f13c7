// What the readers of tensor files share.

#ifndef MICA_FRAMEWORK_TENSOR_TENSOR_FILE_H_
#define MICA_FRAMEWORK_TENSOR_TENSOR_FILE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/base/file.h"
#include "framework/tensor/tensor.h"

namespace mica {

// Reads the elements of a `type` that the file holds from `offset` on. Returns
// InvalidArgument if it ends before them, or if a bool is neither 0 nor 1: that
// would be undefined behaviour in whatever reads it. Requires a static type of
// legal size without gaps.
absl::StatusOr<Tensor> ReadTensorAt(const InputFile& file, int64_t offset,
                                    const TensorType& type);

// The same where `mapped` is what the file's Map() gave: the tensor is a part
// of that, unless its elements aren't aligned there.
absl::StatusOr<Tensor> MapTensorAt(const InputFile& file,
                                   const std::shared_ptr<void>& mapped,
                                   int64_t offset, const TensorType& type);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TENSOR_TENSOR_FILE_H_
