#include "framework/tensor/promotion.h"

namespace mica {
namespace {

// `low` counts where its category is above that of `high`.
DType Combine(DType high, DType low) {
  if (IsFloating(high)) return high;
  if (high == DType::kBool || IsFloating(low)) return PromoteDTypes(high, low);
  return high;
}

}  // namespace

void Promotion::Add(const TensorType& type) {
  const Rank rank =
      type.is_scalar ? kScalar : (type.dims.empty() ? kNoDims : kDims);
  dtypes_[rank] =
      has_[rank] ? PromoteDTypes(dtypes_[rank], type.dtype) : type.dtype;
  has_[rank] = true;
}

DType Promotion::dtype() const {
  if (is_scalar()) return dtypes_[kScalar];
  bool has_any = false;
  DType result = DType::kBool;
  for (Rank rank : {kDims, kNoDims, kScalar}) {
    if (!has_[rank]) continue;
    DType low = dtypes_[rank];
    if (rank == kScalar && IsFloating(low)) low = DType::kF32;
    result = has_any ? Combine(result, low) : low;
    has_any = true;
  }
  return result;
}

}  // namespace mica
