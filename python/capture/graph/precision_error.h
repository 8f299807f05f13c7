// How far a graph in fewer bits is from the same in float32.

#ifndef MICA_PYTHON_CAPTURE_GRAPH_PRECISION_ERROR_H_
#define MICA_PYTHON_CAPTURE_GRAPH_PRECISION_ERROR_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/tensor/dtype.h"

namespace mica {

// Of some numbers and of what they should be, as vectors.
struct VectorError {
  double relative = 0;  // Length of the difference to that of the latter.
  double cosine = 1;    // Of the angle between both.

  // From the sums of (own - other)^2, own^2, other^2 and own * other, `own`
  // being what they should be. NaNs in, NaNs out.
  static VectorError Of(double difference, double own, double other,
                        double product);
};

// Requires a floating dtype; `own` is what `other` should be. NaNs and
// infinities that both have at a place don't count there.
VectorError FindVectorError(DType dtype, int64_t count, const void* own,
                            const void* other);

struct PrecisionError {
  struct Product {
    std::string where;  // The user's line: file:line.
    std::string scope;  // The module that ran it; or empty.
    int64_t n = 0, k = 0;
    std::string precision;
    VectorError error;
  };
  bool is_measured = false;
  VectorError worst;  // Of all floating results.
  std::vector<Product> products;
  std::string failure;  // Why products weren't measured; or empty.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GRAPH_PRECISION_ERROR_H_
