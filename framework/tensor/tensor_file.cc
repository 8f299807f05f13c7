#include "framework/tensor/tensor_file.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {

namespace {

absl::Status CheckBools(const Tensor& tensor) {
  if (tensor.type().dtype != DType::kBool) return absl::OkStatus();
  const auto* begin = static_cast<const uint8_t*>(tensor.data());
  const uint8_t* end = begin + tensor.type().num_bytes();
  const uint8_t* bad =
      std::find_if(begin, end, [](uint8_t byte) { return byte > 1; });
  if (bad == end) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("bool ", bad - begin, ": wants 0 or 1, got ", int{*bad}));
}

}  // namespace

absl::StatusOr<Tensor> ReadTensorAt(const InputFile& file, int64_t offset,
                                    const TensorType& type) {
  MICA_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  MICA_RETURN_IF_ERROR(file.ReadAt(offset, tensor.data(), type.num_bytes()));
  MICA_RETURN_IF_ERROR(CheckBools(tensor));
  return tensor;
}

absl::StatusOr<Tensor> MapTensorAt(const InputFile& file,
                                   const std::shared_ptr<void>& mapped,
                                   int64_t offset, const TensorType& type) {
  const int64_t bytes = type.num_bytes();
  const bool is_within = offset >= 0 && bytes <= file.size() - offset;
  if (mapped == nullptr || bytes == 0 || !is_within ||
      offset % ElementBytes(type.dtype) != 0) {
    return ReadTensorAt(file, offset, type);
  }
  char* data = static_cast<char*>(mapped.get()) + offset;
  Tensor tensor = Tensor::Of(Buffer::Of(mapped, data, bytes), type);
  MICA_RETURN_IF_ERROR(CheckBools(tensor));
  return tensor;
}

}  // namespace mica
