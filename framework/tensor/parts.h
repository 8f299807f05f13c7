// Complex tensors as tensors of their real and imaginary parts.

#ifndef MICA_FRAMEWORK_TENSOR_PARTS_H_
#define MICA_FRAMEWORK_TENSOR_PARTS_H_

#include "framework/tensor/tensor_type.h"

namespace mica {

// The type of the same memory as real numbers, the parts on a last axis of 2;
// what isn't complex is left as it is. Requires a static type.
TensorType PartsType(TensorType type);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TENSOR_PARTS_H_
