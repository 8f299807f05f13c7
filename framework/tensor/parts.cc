#include "framework/tensor/parts.h"

#include <utility>

namespace mica {

TensorType PartsType(TensorType type) {
  if (!IsComplex(type.dtype)) return type;
  TensorType parts{.dtype = RealDType(type.dtype),
                   .dims = type.dims,
                   .strides = type.EffectiveStrides()};
  for (int i = 0; i < type.rank(); ++i) {
    // Other strides mean nothing, and may be too large.
    parts.strides[i] = type.dims[i] > 1 ? 2 * parts.strides[i] : 1;
  }
  parts.dims.push_back(2);
  parts.strides.push_back(1);
  if (parts.is_row_major()) parts.strides.clear();
  return parts;
}

}  // namespace mica
