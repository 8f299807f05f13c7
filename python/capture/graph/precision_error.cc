#include "python/capture/graph/precision_error.h"

#include "kernels/reference/element.h"

namespace mica {

VectorError VectorError::Of(double difference, double own, double other,
                            double product) {
  VectorError error;
  // Of nothing but zeros, what isn't zero is all error.
  error.relative =
      own == 0 ? (difference == 0 ? 0 : 1) : std::sqrt(difference / own);
  const bool is_zero = own == 0 || other == 0;
  error.cosine = is_zero ? (difference == 0 ? 1 : 0)
                         : product / std::sqrt(own) / std::sqrt(other);
  return error;
}

VectorError FindVectorError(DType dtype, int64_t count, const void* own,
                            const void* other) {
  double difference = 0, owns = 0, others = 0, product = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto a = LoadElement<double>(own, dtype, i);
    const auto b = LoadElement<double>(other, dtype, i);
    if (a == b && !std::isfinite(a)) continue;
    if (std::isnan(a) && std::isnan(b)) continue;
    difference += (a - b) * (a - b);
    owns += a * a;
    others += b * b;
    product += a * b;
  }
  return VectorError::Of(difference, owns, others, product);
}

}  // namespace mica
