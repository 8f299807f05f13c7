// Tensors with made-up numbers.

#ifndef MICA_TOOLS_FILL_H_
#define MICA_TOOLS_FILL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/tensor/tensor.h"

namespace mica {

// A tensor of `type` with numbers that depend on the seed alone: floats
// between -0.5 and 0.5, bools of both kinds, integers 0 and 1, which are legal
// indices almost everywhere. ResourceExhausted if there is no memory.
absl::StatusOr<Tensor> RandomTensor(const TensorType& type, uint64_t seed);

}  // namespace mica

#endif  // MICA_TOOLS_FILL_H_
