// Pieces of kernels' sources in CUDA C++.

#ifndef MICA_KERNELS_CUDA_SOURCE_H_
#define MICA_KERNELS_CUDA_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/tensor/dtype.h"
#include "framework/tensor/tensor_type.h"

namespace mica::cuda {

// What every source begins with: element types, `get` from an element to a
// number, `put<T>` back, and functions of numbers as torch defines them.
absl::string_view Prelude();

// Parameters of a kernel that tells errors of data (CodeCall::tells_errors),
// and the statement that tells of an index that is out of range.
inline constexpr absl::string_view kErrorParameters =
    "volatile unsigned long long* error_word, int step";
inline constexpr absl::string_view kTellIndexError =
    "if (*error_word == 0) *error_word = ((unsigned long long)(step + 1) << "
    "32) | 1;";

// The type of an element in memory: "float", "bf16", "boolean".
absl::string_view ElementName(DType dtype);
// The type that elements are computed in: "float", "double" or "long long".
absl::string_view NumberName(DType dtype);
// The float that rows of elements are computed in: f64 for f64, else f32.
DType WideFloat(DType dtype);

// A constant of the type that elements of `dtype` are computed in.
std::string Literal(DType dtype, double value);
std::string IntegerLiteral(int64_t value);

// Strides of several arrays over the same dims.
struct Loop {
  Dims dims;
  std::vector<Dims> strides;  // By array.

  int64_t size() const;
};

// The same elements in fewer dims: those of size 1 dropped, those that follow
// each other merged. In the order of the array `leader`'s strides, the largest
// first.
Loop Simplify(const Loop& loop, size_t leader);

// Statements that define `names[array]`, the offset of element number `index`,
// for each array of the loop. `prefix` keeps their own names apart.
std::string OffsetsOf(const Loop& loop, absl::string_view index,
                      absl::Span<const std::string> names,
                      absl::string_view prefix);

// The type of indices below `count`.
absl::string_view IndexName(int64_t count);

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_SOURCE_H_
