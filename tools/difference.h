// How far two tensors are apart.

#ifndef MICA_TOOLS_DIFFERENCE_H_
#define MICA_TOOLS_DIFFERENCE_H_

#include "framework/tensor/tensor.h"

namespace mica {

// The largest difference of two elements at one place, by the largest element
// of `want`, or by 1 if that is 0; infinite where one is NaN, or infinite, and
// the other isn't. Both are the host's, of one dtype and dims.
double DifferenceOf(const TensorView& got, const TensorView& want);

}  // namespace mica

#endif  // MICA_TOOLS_DIFFERENCE_H_
