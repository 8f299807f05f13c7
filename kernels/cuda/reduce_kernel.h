// Kernels that make one element of many.

#ifndef MICA_KERNELS_CUDA_REDUCE_KERNEL_H_
#define MICA_KERNELS_CUDA_REDUCE_KERNEL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/kernel/kernel.h"
#include "kernels/cuda/calls.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/target.h"
#include "kernels/reference/strided.h"

namespace mica::cuda {

struct ReduceInput {
  Ref at;
  DType dtype = DType::kF32;
  Dims kept_strides, reduced_strides;
};

struct ReduceOutput {
  Ref at;
  DType dtype = DType::kF32;
  Dims strides;  // Over the kept dims.
  std::string result;
};

// What is kept while elements are seen, as text in C++. `a` and `b` are two
// sets of fields; `x`, and `y` if there is a second, are the element, of which
// `i` tells the number, and `number` its type.
struct Reduction {
  DType compute = DType::kF32;
  Dims kept_dims, reduced_dims;
  std::vector<ReduceInput> inputs;
  // One or two, from x0, x1, …, the inputs' elements.
  std::vector<std::string> elements = {"x0"};
  struct Field {
    std::string type, name, start;
  };
  // A sum, where nothing else is asked for.
  std::vector<Field> fields = {{"number", "sum", "0"}};
  std::string add = "a.sum += x;";
  std::string merge = "a.sum += b.sum;";
  std::vector<ReduceOutput> outputs;  // From a, and `count` elements.
};

// Adds the calls that compute it. They take what they need of `scratch`.
void AddReduceCalls(const Target& target, const Reduction& reduction,
                    Scratch& scratch, std::vector<Call>& calls);

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_REDUCE_KERNEL_H_
