// How near two kernels' results have to lie.

#ifndef MICA_PYTHON_CAPTURE_GRAPH_CLOSENESS_H_
#define MICA_PYTHON_CAPTURE_GRAPH_CLOSENESS_H_

#include <cstdint>

#include "framework/tensor/dtype.h"

namespace mica {

// How far two correct kernels may be apart at an element by their rounding:
// so much of the element and of the largest one (of 1, if that is larger), or a
// fifth of it of the largest one (of 100, if that is larger), whichever is
// more. Some dozens of the dtype's last bits; zero for dtypes without rounding.
double AllowedDifference(DType dtype);

struct Discrepancy {
  bool is_none = true;  // Bit for bit.
  // The largest at a place that has a larger one than is allowed; 0 if none.
  double excess = 0;
};

// NaNs are equal, infinities of one sign too. `own` and `other` hold `count`
// dense elements each.
Discrepancy FindDiscrepancy(DType dtype, int64_t count, const void* own,
                            const void* other);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GRAPH_CLOSENESS_H_
