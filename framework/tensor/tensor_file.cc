#include "framework/tensor/tensor_file.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {

absl::StatusOr<Tensor> ReadTensorAt(const InputFile& file, int64_t offset,
                                    const TensorType& type) {
  MICA_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  MICA_RETURN_IF_ERROR(file.ReadAt(offset, tensor.data(), type.num_bytes()));
  if (type.dtype == DType::kBool) {
    const auto* begin = static_cast<const uint8_t*>(tensor.data());
    const uint8_t* end = begin + type.num_bytes();
    const uint8_t* bad =
        std::find_if(begin, end, [](uint8_t byte) { return byte > 1; });
    if (bad != end) {
      return absl::InvalidArgumentError(absl::StrCat(
          "bool ", bad - begin, ": wants 0 or 1, got ", int{*bad}));
    }
  }
  return tensor;
}

}  // namespace mica
