// The dtype that operands of several types meet in.

#ifndef MICA_FRAMEWORK_TENSOR_PROMOTION_H_
#define MICA_FRAMEWORK_TENSOR_PROMOTION_H_

#include "framework/tensor/tensor_type.h"

namespace mica {

// Collects the operands of one op; dtype() is what torch computes in. Tensors
// with dims outrank those without, which outrank host scalars: an operand of a
// lower rank counts only if its category (bool, integer, float) is higher. A
// float host scalar next to tensors counts as f32, torch's default dtype.
class Promotion {
 public:
  void Add(const TensorType& type);
  // Requires one Add() at least.
  DType dtype() const;
  // True if all operands are host scalars; so is the result then.
  bool is_scalar() const { return !has_[kDims] && !has_[kNoDims]; }

 private:
  enum Rank { kDims, kNoDims, kScalar };
  bool has_[3] = {};
  DType dtypes_[3] = {};
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_TENSOR_PROMOTION_H_
