// Kernels that compute each element from the elements at its place.

#ifndef MICA_KERNELS_CUDA_ELEMENT_KERNEL_H_
#define MICA_KERNELS_CUDA_ELEMENT_KERNEL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/kernel/kernel.h"
#include "kernels/cuda/calls.h"
#include "kernels/cuda/target.h"
#include "kernels/reference/strided.h"

namespace mica::cuda {

// An index that data give: it moves where an input is read.
struct Pick {
  Ref at;
  DType dtype = DType::kI64;
  Dims strides;                 // Over the results' dims.
  int64_t size = 0;             // Indices from 0 to before it are legal.
  int64_t stride = 0;           // Of the input, along the axis that is indexed.
  bool takes_negative = false;  // Counted from the end.
};

// An array that the kernel reads or writes, over the results' dims.
struct ElementArray {
  Ref at;
  DType dtype = DType::kF32;
  Dims strides;
  std::vector<Pick> picks;  // Of an input.
};

// One pass over `dims`.
struct ElementLoop {
  DType compute = DType::kF32;  // What numbers are computed in.
  bool keeps_types = false;     // Instead: inputs are what they are read as.
  Dims dims;
  std::vector<ElementArray> inputs;
  std::vector<ElementArray> outputs;
  // Numbers of each place: a name, and strides over the dims.
  std::vector<std::pair<std::string, Dims>> numbers;
  // Statements before the results: they may use x0, x1, …, the inputs' numbers,
  // and `number`, the type.
  std::string body;
  std::vector<std::string> results;  // Expressions, one an output.
};

// The dims hold no 0. An index that is out of range is told as an error, and
// its element counts as 0.
CodeCall MakeElementCall(const Target& target, const ElementLoop& loop);

// One that copies: `to` has the elements of `from`, as its dtype.
CodeCall MakeCopyCall(const Target& target, ElementArray from, ElementArray to,
                      const Dims& dims);

// The array that a lane is, its strides repeated over `dims`.
ElementArray ArrayOf(const Lane& lane, const Dims& dims);

// What is true of a launch of one ElementLoop whose operands are those of the
// request, in its order, and whose outputs are its results: where result 0 may
// lie in an operand's bytes.
Prepared PrepareElements(const Target& target, const KernelRequest& request,
                         const ElementLoop& loop);

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_ELEMENT_KERNEL_H_
