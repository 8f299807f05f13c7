// What tests of the executor share: Programs from text, tensors as numbers.

#ifndef MICA_EXECUTOR_TENSORS_TESTING_H_
#define MICA_EXECUTOR_TENSORS_TESTING_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/program.h"
#include "framework/tensor/tensor.h"
#include "framework/text/text.h"
#include "gtest/gtest.h"
#include "ops/all.h"

namespace mica {

// Fails the test if `text` is no Program.
inline std::shared_ptr<const Program> ParseShared(absl::string_view text) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  EXPECT_THAT(program, IsOk());
  return std::make_shared<const Program>(*std::move(program));
}

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
