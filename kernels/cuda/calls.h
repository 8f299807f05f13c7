// What a prepared kernel launches: kernels and products, one behind the other.

#ifndef MICA_KERNELS_CUDA_CALLS_H_
#define MICA_KERNELS_CUDA_CALLS_H_

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "framework/kernel/kernel.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/code.h"

namespace mica::cuda {

// An address: so many bytes behind a launch argument.
struct Ref {
  int arg = -1;  // -1: none.
  int64_t offset = 0;
};

// A launch of one kernel, whose parameters are addresses.
struct CodeCall {
  std::shared_ptr<const Code> code;
  std::vector<Ref> params;
  uint32_t blocks[3] = {1, 1, 1};
  uint32_t threads[2] = {1, 1};
  // Two more parameters: where to tell an error of data, and the step.
  bool tells_errors = false;
};

// The blocks that `count` things fill, at `of_block` each.
constexpr int64_t BlocksFor(int64_t count, int64_t of_block) {
  return (count + of_block - 1) / of_block;
}

struct ProductCall {
  BlasProduct product;
  Ref a, b, c, bias, out;
  bool is_turned = false;  // It is the transposed of what was asked for.
};

// Sets `bytes` bytes to 0.
struct ClearCall {
  Ref at;
  int64_t bytes = 0;
};

using Call = std::variant<CodeCall, ProductCall, ClearCall>;

// A kernel that runs `calls` in order.
Prepared PrepareCalls(std::vector<Call> calls, int64_t scratch_bytes = 0);

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_CALLS_H_
