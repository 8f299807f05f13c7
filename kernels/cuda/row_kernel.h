// Kernels that see the elements of one row together.

#ifndef MICA_KERNELS_CUDA_ROW_KERNEL_H_
#define MICA_KERNELS_CUDA_ROW_KERNEL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/calls.h"
#include "kernels/cuda/target.h"
#include "kernels/reference/strided.h"

namespace mica::cuda {

// An array with an element at each place of a row, or, with stride 0 along it,
// one of each row.
struct RowArray {
  std::string name;  // `name(i)` is the element as a number.
  Ref at;
  DType dtype = DType::kF32;
  Dims row_strides;        // Over the rows' dims.
  int64_t stride = 0;      // Along a row.
  bool is_output = false;  // `put_name(i, number)` writes it.
};

// One block, or one warp, computes a row. The body is text in C++; in it
// FOR_ROW is a loop over the places `i` of this thread, `k` their number from 0
// on, of which there are at most ITEMS; `length` is the row's; row_sum(x) and
// row_max(x) tell all threads of a row what they have together.
struct RowKernel {
  DType compute = DType::kF32;
  Dims rows;
  int64_t length = 0;
  std::vector<RowArray> arrays;
  // Numbers of each row: a name, and strides over the rows' dims.
  std::vector<std::pair<std::string, Dims>> numbers;
  std::string body;
  // Sums over all rows: names of numbers at each place of a row, which the body
  // adds to as `name[k]`. Where there are some, a block computes several rows,
  // and writes its own sums to `partial`, f32 or f64 [parts, sums, length].
  std::vector<std::string> sums;
  Ref partial;
};

// How many parts a kernel's sums have.
int64_t NumParts(const Target& target, const RowKernel& kernel);

CodeCall MakeRowCall(const Target& target, const RowKernel& kernel);

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_ROW_KERNEL_H_
