// What tests of the executor share: Programs from text, tensors as numbers.

#ifndef MICA_EXECUTOR_TENSORS_TESTING_H_
#define MICA_EXECUTOR_TENSORS_TESTING_H_

#include <utility>
#include <vector>

#include "analysis/program_testing.h"  // Gives ParseShared().
#include "framework/tensor/tensor.h"

namespace mica {

// A row-major tensor of float32 numbers, which it doesn't own.
inline TensorView ViewOf(std::vector<float>& numbers, Dims dims) {
  return {.data = numbers.data(),
          .type = {.dtype = DType::kF32, .dims = std::move(dims)}};
}

// The elements of a row-major tensor of T.
template <typename T = float>
std::vector<T> NumbersOf(const Tensor& tensor) {
  const T* data = static_cast<const T*>(tensor.data());
  return {data, data + tensor.type().num_elements()};
}

}  // namespace mica

#endif  // MICA_EXECUTOR_TENSORS_TESTING_H_
