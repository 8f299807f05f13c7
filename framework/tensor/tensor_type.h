// What is known of a value before a run: element type, sizes, memory layout.

#ifndef MICA_FRAMEWORK_TENSOR_TENSOR_TYPE_H_
#define MICA_FRAMEWORK_TENSOR_TENSOR_TYPE_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/tensor/dtype.h"

namespace mica {

// The size of a dimension: an integer, or a symbol that stands for one until a
// Program is specialised. A symbol is a number below every legal size.
using Dim = int64_t;
using Dims = absl::InlinedVector<Dim, 5>;

// The symbol called `name`; equal names give equal Dims. Thread-safe. One whose
// name is a SizeExpression of others follows from these.
Dim SymbolDim(absl::string_view name);
bool IsSymbol(Dim dim);
// The decimal number or the symbol's name.
std::string DimToString(Dim dim);

// A tensor's type, or a host scalar's: `is_scalar` tells a Python number apart
// from a tensor without dimensions.
//
// `strides` count elements. Empty strides mean row-major order.
struct TensorType {
  DType dtype = DType::kF32;
  Dims dims;
  Dims strides;
  bool is_scalar = false;

  int rank() const { return static_cast<int>(dims.size()); }
  // Product of the sizes. Requires static dims.
  int64_t num_elements() const;
  // num_elements() times the element's bytes, however the strides lie.
  int64_t num_bytes() const;
  // Bytes from the first element to the end of the last one that the strides
  // reach; 0 if there are no elements.
  int64_t extent_bytes() const;
  bool is_static() const;
  // True if elements follow each other in row-major order without gaps.
  bool is_row_major() const;
  // True if the elements fill extent_bytes() without gap or overlap, in some
  // order of the dimensions.
  bool is_dense() const;
  // `strides`, or the row-major ones if those are empty.
  Dims EffectiveStrides() const;

  // "f32[32,784]", "f32[2,3]{1,2}", "f64" for a host scalar.
  std::string ToString() const;

  // Equal where every element lies at the same place: strides of dims of size
  // 1 don't count, nor does it whether row-major ones are spelled out.
  friend bool operator==(const TensorType& a, const TensorType& b);
  template <typename H>
  friend H AbslHashValue(H h, const TensorType& type) {
    return H::combine(std::move(h), type.dtype, type.dims, type.is_scalar,
                      type.MeaningfulStrides());
  }

 private:
  // Equal for equal types.
  Dims MeaningfulStrides() const;
};

TensorType ScalarType(DType dtype);

// Row-major strides in elements of a tensor with static `dims`.
Dims RowMajorStrides(absl::Span<const Dim> dims);

// The same type in the one spelling that a Program's values have: row-major
// strides are left out, so that equal Programs print as equal text.
TensorType InOneForm(TensorType type);

// Same dtype and dims; strides may differ.
bool SameShape(const TensorType& a, const TensorType& b);

// The longest extent, in bytes, that any value may have. Larger types are
// refused where they enter (parser, recorder).
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 46;

// True if every dim is between 0 and the limit and so is the product.
bool HasLegalSize(const TensorType& type);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TENSOR_TENSOR_TYPE_H_
